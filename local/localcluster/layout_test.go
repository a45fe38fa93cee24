package localcluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pinfold.dev/pinfold/test/must"
)

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
	must.Do(t, l.remove(quiet))
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
