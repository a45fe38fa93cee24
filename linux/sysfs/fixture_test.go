package sysfs

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/test/must"
)

// readTree returns the /sys tree of a file in testdata, which may be changed.
func readTree(t testing.TB, name string) fstest.MapFS {
	t.Helper()
	text := must.Get(os.ReadFile(name))(t)
	tree, err := ParseArchive(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return writable(t, tree)
}

// writable copies the files of a tree.
func writable(t testing.TB, tree fs.FS) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(tree, name)
		files[name] = &fstest.MapFile{Data: content}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// describe returns a machine as text, one part per line.
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
	if !m.NoHZFull.IsEmpty() {
		line("nohz_full %s", m.NoHZFull)
	}
	describeGroups(line, "package", m.Packages())
	describeGroups(line, "die", m.Dies())
	describeGroups(line, "LLC", m.LLCs())
	for _, llc := range m.LLCs() {
		if size, ok := m.LLCBytes[llc.ID]; ok {
			line("LLC %d has %d KiB", llc.ID, size>>10)
		}
	}
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
