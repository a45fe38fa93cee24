package sysfs

import (
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// brokenCase is one case of testdata/broken.txt, which explains its words.
type brokenCase struct {
	name string
	tree fstest.MapFS
}

// TestBrokenTrees reads the trees of broken.txt. For each, testdata/mended.txt has the error, or
// the notes and in what the machine differs from the undamaged one.
func TestBrokenTrees(t *testing.T) {
	undamaged := must.Get(Read(readTree(t, "testdata/two-packages.txtar")))(t)
	var b strings.Builder
	for _, c := range readBroken(t) {
		fmt.Fprintf(&b, "%s\n", c.name)
		m, notes, err := Examine(c.tree, cpuset.Set{})
		if err != nil {
			fmt.Fprintf(&b, "  error %v\n\n", err)
			continue
		}
		for _, note := range notes {
			fmt.Fprintf(&b, "  note %s\n", note)
		}
		before, after := strings.Split(describe(undamaged), "\n"), strings.Split(describe(m), "\n")
		for _, line := range before {
			if !slices.Contains(after, line) {
				fmt.Fprintf(&b, "  - %s\n", line)
			}
		}
		for _, line := range after {
			if !slices.Contains(before, line) {
				fmt.Fprintf(&b, "  + %s\n", line)
			}
		}
		b.WriteString("\n")
	}
	golden.Compare(t, "testdata/mended.txt", b.String())
}

func readBroken(t *testing.T) []*brokenCase {
	t.Helper()
	text := must.Get(os.ReadFile("testdata/broken.txt"))(t)
	base := readTree(t, "testdata/two-packages.txtar")
	var cases []*brokenCase
	for line := range strings.Lines(string(text)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word == "" || word == "#" {
			continue
		}
		if word == "case" {
			cases = append(cases, &brokenCase{name: rest, tree: maps.Clone(base)})
			continue
		}
		if len(cases) == 0 {
			t.Fatalf("broken.txt: %q stands before the first case", line)
		}
		cases[len(cases)-1].apply(t, word, rest)
	}
	if len(cases) == 0 {
		t.Fatal("broken.txt has no cases")
	}
	return cases
}

func (c *brokenCase) apply(t *testing.T, word, rest string) {
	t.Helper()
	switch word {
	case "write":
		file, content, _ := strings.Cut(rest, " ")
		if content == `""` {
			content = ""
		}
		names, err := expand(path.Join("devices/system", file))
		if err != nil {
			t.Fatalf("case %q: %v", c.name, err)
		}
		for _, name := range names {
			c.tree[name] = &fstest.MapFile{Data: []byte(content + "\n")}
		}
	case "remove":
		names, err := expand(path.Join("devices/system", rest))
		if err != nil {
			t.Fatalf("case %q: %v", c.name, err)
		}
		for _, name := range names {
			if !removeAll(c.tree, name) {
				t.Fatalf("case %q: nothing to remove at %s", c.name, name)
			}
		}
	default:
		t.Fatalf("case %q: unknown word %q", c.name, word)
	}
}

// removeAll removes a file or everything in a directory. It returns false if there is nothing to
// remove.
func removeAll(tree fstest.MapFS, name string) bool {
	before := len(tree)
	maps.DeleteFunc(tree, func(file string, _ *fstest.MapFile) bool {
		return file == name || strings.HasPrefix(file, name+"/")
	})
	return len(tree) < before
}
