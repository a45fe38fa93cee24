package localcluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestForeignFilesSurvive(t *testing.T) {
	dir := t.TempDir()
	if err := Claim(dir); err != nil {
		t.Fatal(err)
	}
	l, quiet := layout{dir}, quiet()
	if err := l.create(quiet); err != nil {
		t.Fatal(err)
	}
	if err := l.checkUsable(); err != nil {
		t.Errorf("own files are rejected: %v", err)
	}
	letter := filepath.Join(dir, "letter")
	if err := os.WriteFile(letter, []byte("dear"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.checkUsable(); err == nil || !strings.Contains(err.Error(), `"letter"`) {
		t.Errorf("a directory with a letter in it: %v", err)
	}
	if err := l.remove(quiet); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "letter" {
		t.Errorf("left behind: %v, %v; want only the letter", entries, err)
	}
}

func TestRemoveRemovesTheDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	lock, err := claimAndLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.release()
	l, quiet := layout{dir}, quiet()
	if err := l.create(quiet); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(SupervisorLog(dir), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.remove(quiet); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is still there: %v", err)
	}
}
