package debian

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeApt makes a shell script the apt-get of this test.
func fakeApt(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "apt-get"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// TestApt passes names and versions to apt-get and takes the files that it makes.
func TestApt(t *testing.T) {
	p := newPool(t)
	program := p.program(t, "a", "b")
	made := t.TempDir()
	for _, pkg := range program.Packages {
		if err := os.WriteFile(filepath.Join(made, aptFile(pkg)), p.files["/"+pkg.Path], 0o644); err != nil {
			t.Fatal(err)
		}
	}
	fakeApt(t, `[ "$*" = "--quiet=2 download a:all=1:1-1 b:all=1:1-1" ] || { echo "E: arguments $*"; exit 1; }
cp `+made+`/a_1%3a1-1_all.deb `+made+`/b_1%3a1-1_all.deb .`)
	cache := Cache{Dir: t.TempDir()}
	cache.sources = []source{apt{filepath.Join(cache.Dir, temporary)}}
	if err := cache.Fetch(t.Context(), program.Packages...); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(cache.Dir, temporary)); err != nil || len(left) > 0 {
		t.Errorf("temporary files: %v (%v)", left, err)
	}
}

// TestAptErrors says for failures of apt-get what the error contains.
func TestAptErrors(t *testing.T) {
	program := newPool(t).program(t, "a")
	for says, script := range map[string]string{
		"apt-get: exit status 100: Version '1' for 'a' was not found": "echo W: nothing; echo \"E: Version '1' for 'a' was not found\" >&2; echo E: second; exit 100",
		"apt-get: exit status 1: broken":                              "echo broken; exit 1",
		"0 bytes, want":                                               "touch a_1%3a1-1_all.deb",
		"no such file":                                                "exit 0",
	} {
		fakeApt(t, script)
		cache := Cache{Dir: t.TempDir()}
		cache.sources = []source{apt{filepath.Join(cache.Dir, temporary)}}
		err := cache.Fetch(t.Context(), program.Packages...)
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want %q", err, says)
		}
	}
}
