package sysfs

import (
	"errors"
	"maps"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"pinfold.dev/pinfold/core/topology"
)

// brokenCase is one case of testdata/broken.txt, which explains its words.
type brokenCase struct {
	name          string
	tree          fstest.MapFS
	errorHas      []string
	contradiction bool
}

func TestBrokenTrees(t *testing.T) {
	for _, c := range readBroken(t) {
		t.Run(c.name, func(t *testing.T) {
			m, err := Read(c.tree)
			if err == nil {
				t.Fatalf("no error, but this machine:\n%s", describe(m))
			}
			if m != nil {
				t.Error("a machine together with an error")
			}
			for _, part := range c.errorHas {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not contain %q:\n%v", part, err)
				}
			}
			if got := errors.Is(err, topology.ErrInconsistent); got != c.contradiction {
				t.Errorf("the error wraps topology.ErrInconsistent: %v, want %v:\n%v", got, c.contradiction, err)
			}
		})
	}
}

func readBroken(t *testing.T) []*brokenCase {
	t.Helper()
	text, err := os.ReadFile("testdata/broken.txt")
	if err != nil {
		t.Fatal(err)
	}
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
		if !removeAll(c.tree, path.Join("devices/system", rest)) {
			t.Fatalf("case %q: nothing to remove at %s", c.name, rest)
		}
	case "error":
		c.errorHas = append(c.errorHas, rest)
	case "contradiction":
		c.contradiction = true
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
