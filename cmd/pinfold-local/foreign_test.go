package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/test/must"
)

// makeTree creates files with the given names below dir. A name that ends in "/" is a directory.
func makeTree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		parent := filepath.Dir(path)
		if strings.HasSuffix(name, "/") {
			parent = path
		}
		must.Do(t, os.MkdirAll(parent, 0o700))
		if parent == path {
			continue
		}
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
}

// readTree returns the modes of all files below dir, with the text of files and the targets of
// links.
func readTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	tree := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		tree[path] = info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			text, err := os.ReadFile(path)
			tree[path] += " " + string(text)
			return err
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			tree[path] += " " + target
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestForeignFilesSurvive checks that neither up nor down changes a directory that up has not
// created or found empty, regardless of the names in it.
func TestForeignFilesSurvive(t *testing.T) {
	victims := t.TempDir()
	// As an earlier version wrote it.
	before := fmt.Sprintf(`{"run": %q, "pods": "10.213.0.0/24", "sysctls": [{"path": %q, "value": "overwritten"}],
		"delegations": null, "absent": [%q], "hierarchies": []}`,
		filepath.Join(victims, "run"), filepath.Join(victims, "passwd"), filepath.Join(victims, "home"))
	for name, files := range map[string]map[string]string{
		"a kubeconfig":           {"config": "users: []"},
		"a home directory":       {"config/editor": "x", "logs/mail": "y", ".bashrc": "z"},
		"two known names":        {"config/editor": "x", "logs/mail": "y"},
		"an authority":           {"pki/ca.key": "secret", "etcd/member/": ""},
		"an empty lock":          {"lock": ""},
		"a foreign lock":         {"lock": "1234\n", "config/editor": "x"},
		"a file of a repository": {"lock": "1\n", "node/before.json": before},
	} {
		for _, command := range []string{"down", "up", "up --detach"} {
			t.Run(name+": "+command, func(t *testing.T) {
				dir := t.TempDir()
				makeTree(t, dir, files)
				makeTree(t, victims, map[string]string{"passwd": "root", "home/letter": "dear", "run/socket": ""})
				want, wantVictims := readTree(t, dir), readTree(t, victims)
				args := append(strings.Fields(command), "--data-dir", dir)
				if _, _, err := runHere(t, args...); err == nil || !strings.Contains(err.Error(), "pinfold-local") {
					t.Errorf("error %v, want one that rejects the directory", err)
				}
				if diff := cmp.Diff(want, readTree(t, dir)); diff != "" {
					t.Errorf("the directory changed (-before +after):\n%s", diff)
				}
				if diff := cmp.Diff(wantVictims, readTree(t, victims)); diff != "" {
					t.Errorf("files elsewhere changed (-before +after):\n%s", diff)
				}
			})
		}
	}
}
