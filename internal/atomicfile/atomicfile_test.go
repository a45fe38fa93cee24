package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pinfold.dev/pinfold/test/must"
)

// TestWrite checks content and permissions of a file that is new, replaced or kept, under a strict
// umask, and that no other file remains.
func TestWrite(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	for name, test := range map[string]struct {
		options Options
		old     string
		want    string
		perm    fs.FileMode
		err     error
	}{
		"new":          {Options{}, "", "new", 0o600, nil},
		"permissions":  {Options{Perm: 0o644, Sync: true}, "", "new", 0o644, nil},
		"replaced":     {Options{Suffix: ".new"}, "old", "new", 0o600, nil},
		"kept":         {Options{KeepOld: true}, "old", "old", 0o600, fs.ErrExist},
		"nothing kept": {Options{KeepOld: true, Sync: true, Perm: 0o640}, "", "new", 0o640, nil},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			if test.old != "" {
				must.Do(t, os.WriteFile(path, []byte(test.old), 0o666))
			}
			if err := Write(path, []byte("new"), test.options); !errors.Is(err, test.err) {
				t.Fatalf("error %v, want %v", err, test.err)
			}
			expect(t, path, test.want)
			if info, err := os.Stat(path); err != nil || info.Mode() != test.perm {
				t.Errorf("mode %v (%v), want %v", info.Mode(), err, test.perm)
			}
		})
	}
}

// TestKeepOldDuringWrite checks that KeepOld keeps a file that appears during the write.
func TestKeepOldDuringWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	err := WriteFunc(path, Options{KeepOld: true}, func(*os.File) error { return os.WriteFile(path, []byte("old"), 0o600) })
	if !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v, want %v", err, fs.ErrExist)
	}
	expect(t, path, "old")
}

// TestFailure checks that a failed write leaves the old file and nothing else.
func TestFailure(t *testing.T) {
	full := errors.New("disk full")
	for _, options := range []Options{{}, {KeepOld: true}, {Suffix: ".new", Sync: true}} {
		path := filepath.Join(t.TempDir(), "file")
		if !options.KeepOld {
			must.Do(t, os.WriteFile(path, []byte("old"), 0o600))
		}
		if err := WriteFunc(path, options, func(*os.File) error { return full }); !errors.Is(err, full) {
			t.Errorf("%+v: error %v", options, err)
		}
		if options.KeepOld {
			must.Do(t, os.WriteFile(path, []byte("old"), 0o600))
		}
		expect(t, path, "old")
	}
	dir := filepath.Join(t.TempDir(), "folder", "in")
	must.Do(t, os.MkdirAll(dir, 0o700))
	var wrong *os.PathError
	if err := Write(filepath.Dir(dir), nil, Options{}); !errors.As(err, &wrong) || wrong.Op != Replace || wrong.Path != filepath.Dir(dir) {
		t.Errorf("write over a directory: %v", err)
	}
	absent := filepath.Join(t.TempDir(), "none", "file")
	if err := Write(absent, nil, Options{}); !errors.As(err, &wrong) || wrong.Path != absent {
		t.Errorf("write in a directory that does not exist: %v", err)
	}
	expect(t, filepath.Dir(dir), "")
	pipe := filepath.Join(t.TempDir(), "pipe")
	must.Do(t, syscall.Mkfifo(pipe, 0o600))
	link := filepath.Join(t.TempDir(), "link")
	must.Do(t, os.Symlink(pipe, link))
	for _, name := range []string{pipe, link} {
		if err := Write(name, nil, Options{}); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
			t.Errorf("write over a pipe: %v", err)
		}
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe is replaced: %v, %v", info, err)
	}
}

// TestLeftover checks that a temporary file left by a killed process is replaced, and that a
// symbolic link of that name is not followed.
func TestLeftover(t *testing.T) {
	letter := filepath.Join(t.TempDir(), "letter")
	must.Do(t, os.WriteFile(letter, []byte("dear"), 0o600))
	path := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.Symlink(letter, path+".new"))
	must.Do(t, Write(path, []byte("new"), Options{Suffix: ".new"}))
	expect(t, path, "new")
	expect(t, letter, "dear")
}

// expect checks that path is the only entry of its directory, and its content unless want is empty.
func expect(t *testing.T, path, want string) {
	t.Helper()
	if text, err := os.ReadFile(path); want != "" && (err != nil || string(text) != want) {
		t.Errorf("%s has %q (%v), want %q", path, text, err, want)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("files %v (%v), want one", entries, err)
	}
}
