package localnode

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/test/must"
)

// TestRemoveDirs creates four directories, and changes two of them before they are removed.
func TestRemoveDirs(t *testing.T) {
	root := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(root, "old"), 0o755))
	made := missingDirs(root, "/old/a/b", "/old/used", "/replaced")
	if len(made) != 4 {
		t.Fatalf("missing %v, want four", made)
	}
	var saved []int // number of identities
	must.Do(t, made.create(root, func() error {
		known := 0
		for _, identity := range made {
			if identity != "" {
				known++
			}
		}
		saved = append(saved, known)
		return nil
	}))
	if len(saved) != 2 || saved[0] != 0 || saved[1] != 4 {
		t.Errorf("saved with %v identities, want 0 and 4", saved)
	}
	must.Do(t, os.WriteFile(filepath.Join(root, "old/used/letter"), nil, 0o600))
	must.Do(t, os.Remove(filepath.Join(root, "replaced")))
	time.Sleep(20 * time.Millisecond) // birth times have the resolution of the kernel's tick
	must.Do(t, os.Mkdir(filepath.Join(root, "replaced"), 0o755))
	var log bytes.Buffer
	must.Do(t, made.remove(root, slog.New(slog.NewTextHandler(&log, nil))))
	for path, want := range map[string]bool{"old": true, "old/a": false, "old/used/letter": true, "replaced": true} {
		if _, err := os.Lstat(filepath.Join(root, path)); (err == nil) != want {
			t.Errorf("%s: %v, want it kept: %t", path, err, want)
		}
	}
	if text := log.String(); strings.Count(text, "kept") != 2 || !strings.Contains(text, "/old/used") || !strings.Contains(text, "/replaced") {
		t.Errorf("logged:\n%s", text)
	}
}

// TestExistingDirectory checks that create does not claim a directory that has appeared since
// missingDirs, and makes nothing that it cannot save.
func TestExistingDirectory(t *testing.T) {
	root := t.TempDir()
	made := missingDirs(root, "/a/b")
	failure := errors.New("disk full")
	if err := made.create(root, func() error { return failure }); !errors.Is(err, failure) {
		t.Errorf("create = %v, want %v", err, failure)
	}
	must.Do(t, os.Mkdir(filepath.Join(root, "a"), 0o755)) // fails if create has created it
	must.Do(t, made.create(root, func() error { return nil }))
	must.Do(t, made.remove(root, slog.New(slog.DiscardHandler)))
	if _, err := os.Stat(filepath.Join(root, "a")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(root, "a/b")); !os.IsNotExist(err) {
		t.Errorf("a/b still exists: %v", err)
	}
}
