package localcluster

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pinfold.dev/pinfold/test/must"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// TestForeignDirectories checks that no command changes a directory that was not created or found empty,
// regardless of the names in it.
func TestForeignDirectories(t *testing.T) {
	for name, files := range map[string][]string{
		"two known names": {"config/editor", "logs/mail"},
		"an authority":    {"pki/ca.key"},
		"an empty lock":   {lockName},
		"a repository":    {lockName, "node/before.json"},
	} {
		dir := t.TempDir()
		for _, file := range files {
			must.Do(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(file)), 0o700))
			must.Do(t, os.WriteFile(filepath.Join(dir, file), nil, 0o600))
		}
		want := must.Get(fs.Glob(os.DirFS(dir), "*/*"))(t)
		_, startErr := Start(t.Context(), testConfig(t, dir))
		for what, err := range map[string]error{
			"start": startErr, "claim": Claim(dir), "state": second(ReadState(dir)),
			"remove": second(Remove(dir, quiet())), "shutdown": Shutdown(t.Context(), dir),
		} {
			if !errors.Is(err, errNotMade) {
				t.Errorf("%s: %s: %v, want %v", name, what, err, errNotMade)
			}
		}
		if got := must.Get(fs.Glob(os.DirFS(dir), "*/*"))(t); !slices.Equal(got, want) {
			t.Errorf("%s: the files %q became %q", name, want, got)
		}
	}
}

// TestForeignFilesSurvive checks that a file that a user puts into a data directory is kept, and that no
// cluster is started there.
func TestForeignFilesSurvive(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, Claim(dir))
	l, quiet := layout{dir}, quiet()
	must.Do(t, l.create(quiet))
	if err := l.checkUsable(); err != nil {
		t.Errorf("own files are rejected: %v", err)
	}
	letter := filepath.Join(dir, "letter")
	must.Do(t, os.WriteFile(letter, []byte("dear"), 0o600))
	if err := l.checkUsable(); err == nil || !strings.Contains(err.Error(), `"letter"`) {
		t.Errorf("a directory with a letter in it: %v", err)
	}
	var log bytes.Buffer
	must.Do(t, l.remove(slog.New(slog.NewTextHandler(&log, nil))))
	if err := Claim(dir); !errors.Is(err, errNotMade) || !strings.Contains(log.String(), "no cluster starts in it") {
		t.Errorf("the next cluster: %v; logged %q", err, log.String())
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "letter" {
		t.Errorf("left behind: %v, %v; want only the letter", entries, err)
	}
}

func TestRemoveRemovesTheDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	lock := must.Get(claimAndLock(dir))(t)
	defer lock.release()
	l, quiet := layout{dir}, quiet()
	must.Do(t, l.create(quiet))
	must.Do(t, os.WriteFile(SupervisorLog(dir), nil, 0o600))
	must.Do(t, l.remove(quiet))
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
}
