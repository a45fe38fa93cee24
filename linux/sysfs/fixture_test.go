package sysfs

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"pinfold.dev/pinfold/core/topology"
)

// fixture is one file of testdata: a /sys tree and what Read makes of it.
//
// The name of a file may have CPUs in braces: "cpu{0,4-5}/online" stands for
// three files of the same content. The file "machine" is the machine in the form
// of [describe].
type fixture struct {
	archive *txtar.Archive
	tree    fstest.MapFS
	machine string
}

func readFixture(t testing.TB, name string) fixture {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f := fixture{archive: txtar.Parse(text), tree: fstest.MapFS{}}
	for _, file := range f.archive.Files {
		if file.Name == "machine" {
			f.machine = string(file.Data)
			continue
		}
		for _, name := range expand(t, file.Name) {
			if f.tree[name] != nil {
				t.Fatalf("%s is there twice, the second time in %q", name, file.Name)
			}
			f.tree[name] = &fstest.MapFile{Data: file.Data}
		}
	}
	return f
}

// expand replaces one list of numbers in braces by each of them.
func expand(t testing.TB, name string) []string {
	t.Helper()
	before, rest, ok := strings.Cut(name, "{")
	if !ok {
		return []string{name}
	}
	list, after, ok := strings.Cut(rest, "}")
	if !ok {
		t.Fatalf("%q has no closing brace", name)
	}
	var names []string
	for item := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(item, "-")
		if !isRange {
			to = from
		}
		first, errFirst := strconv.Atoi(from)
		last, errLast := strconv.Atoi(to)
		if errFirst != nil || errLast != nil {
			t.Fatalf("%q: %q is not a list of numbers", name, list)
		}
		for n := first; n <= last; n++ {
			names = append(names, before+strconv.Itoa(n)+after)
		}
	}
	return names
}

// describe writes a machine as text, one part a line.
func describe(m *topology.Machine) string {
	var b strings.Builder
	line := func(format string, args ...any) {
		b.WriteString(strings.TrimRight(fmt.Sprintf(format, args...), " ") + "\n")
	}
	line("online %s", m.Online())
	if !m.Offline.IsEmpty() {
		line("offline %s", m.Offline)
	}
	if !m.Isolated.IsEmpty() {
		line("isolated %s", m.Isolated)
	}
	describeGroups(line, "package", m.Packages())
	describeGroups(line, "die", m.Dies())
	describeGroups(line, "LLC", m.LLCs())
	describeGroups(line, "core", m.Cores())
	for _, n := range m.NUMANodes {
		where := n.CPUs.String()
		if n.CPUs.IsEmpty() {
			where = fmt.Sprintf("none, local to %s", n.LocalCPUs)
		}
		line("node %d: %s; %d MiB; distances %v", n.ID, where, n.MemoryBytes>>20, n.Distances)
	}
	for _, c := range m.CPUs {
		if c.NUMA == topology.NoNUMA {
			line("no node: %d", c.ID)
		}
	}
	if len(m.Kinds) > 1 {
		for _, k := range m.Kinds {
			line("kind %s: %s", k, m.CPUsOfKind(k))
		}
	}
	return b.String()
}

func describeGroups[ID ~int](line func(string, ...any), name string, groups []topology.Group[ID]) {
	for _, g := range groups {
		line("%s %d: %s", name, g.ID, g.CPUs)
	}
}
