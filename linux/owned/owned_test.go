package owned

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/test/must"
)

// nobody is the id of another user.
const nobody = 65534

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: acts as two users")
	}
}

// dirs creates directories with the given modes, each in the previous one.
func dirs(t *testing.T, modes ...fs.FileMode) (paths []string) {
	t.Helper()
	path := t.TempDir()
	must.Do(t, os.Chmod(path, 0o700))
	for _, mode := range modes {
		path = filepath.Join(path, "d")
		must.Do(t, os.Mkdir(path, 0o700))
		must.Do(t, os.Chmod(path, mode)) // regardless of the umask
		paths = append(paths, path)
	}
	return paths
}

func expectOpen(t *testing.T, path, refusal string) {
	t.Helper()
	root, err := Open(path)
	if err == nil {
		must.Do(t, root.Close())
	}
	if refusal == "" && err != nil || refusal != "" && (err == nil || !strings.Contains(err.Error(), refusal)) {
		t.Errorf("error %v, want %q", err, refusal)
	}
}

func TestOpenLooksAtModes(t *testing.T) {
	for name, test := range map[string]struct {
		parent, dir fs.FileMode
		refusal     string
	}{
		"private":             {0o700, 0o700, ""},
		"readable":            {0o755, 0o755, ""},
		"group may write":     {0o755, 0o770, "may be written"},
		"others may write":    {0o755, 0o707, "may be written"},
		"parent of others":    {0o757, 0o700, "which others may write to"},
		"parent of own group": {0o775, 0o700, ""},
		"parent like /tmp":    {0o777 | fs.ModeSticky, 0o700, ""},
	} {
		t.Run(name, func(t *testing.T) { expectOpen(t, dirs(t, test.parent, test.dir)[1], test.refusal) })
	}
}

// TestMake: missing directories are made, but none below a directory, or through a link, of another
// user.
func TestMake(t *testing.T) {
	needsRoot(t)
	top := dirs(t, 0o755)[0]
	must.Do(t, Make(filepath.Join(top, "a", "b", "c"), 0o700))
	must.Do(t, Make(filepath.Join(top, "a", "b", "c"), 0o700))
	must.Do(t, os.Symlink("a", filepath.Join(top, "own")))
	must.Do(t, Make(filepath.Join(top, "own", "d"), 0o700))
	expectOpen(t, filepath.Join(top, "a", "d"), "")

	theirs := filepath.Join(top, "theirs")
	must.Do(t, os.Mkdir(theirs, 0o755))
	must.Do(t, os.Chown(theirs, nobody, nobody))
	target := filepath.Join(top, "target")
	must.Do(t, os.Mkdir(target, 0o755))
	link := filepath.Join(top, "link")
	must.Do(t, os.Symlink(target, link))
	must.Do(t, os.Lchown(link, nobody, nobody))
	must.Do(t, os.Symlink("nowhere", filepath.Join(top, "dangling")))
	for _, dir := range []string{theirs + "/x", theirs + "/x/y", link + "/x", link + "/x/y/z", top + "/dangling/x"} {
		if err := Make(dir, 0o700); err == nil {
			t.Errorf("%s was made", dir)
		}
	}
	for _, dir := range []string{theirs, target} {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("%s has %v, %v", dir, entries, err)
		}
	}
}

func TestOpenLooksAtOwners(t *testing.T) {
	needsRoot(t)
	for i, refusal := range []string{"is below", "belongs to user 65534"} {
		paths := dirs(t, 0o700, 0o700)
		must.Do(t, os.Chown(paths[i], nobody, nobody))
		expectOpen(t, paths[1], refusal)
	}
	paths := dirs(t, 0o775, 0o700)
	must.Do(t, os.Chown(paths[0], nobody, nobody))
	t.Setenv("SUDO_UID", "65534")
	expectOpen(t, paths[1], "which others may write to")
	t.Setenv("SUDO_GID", "65534")
	expectOpen(t, paths[1], "")
	must.Do(t, os.Chown(paths[1], nobody, nobody))
	expectOpen(t, paths[1], "belongs to user 65534") // a directory of the user who called sudo
}

func TestOpenAndLinks(t *testing.T) {
	paths := dirs(t, 0o700, 0o700)
	link := filepath.Join(t.TempDir(), "link")
	must.Do(t, os.Symlink(paths[1], link))
	expectOpen(t, link, "is a symbolic link")
	must.Do(t, os.Remove(link))
	must.Do(t, os.Symlink("../"+filepath.Base(filepath.Dir(link)), link))
	must.Do(t, os.Remove(link))
	must.Do(t, os.Symlink(paths[0], link)) // above the last element
	root, err := Open(link + "/d")
	must.Do(t, err)
	defer root.Close()
	if root.Name() != paths[1] {
		t.Errorf("the directory is %s, want %s", root.Name(), paths[1])
	}
	must.Do(t, os.Remove(link))
	must.Do(t, os.Symlink(link, link))
	expectOpen(t, link+"/d", "too many levels")
	expectOpen(t, filepath.Join(paths[1], "absent"), "no such file")
	if os.Geteuid() == 0 {
		must.Do(t, os.Remove(link))
		must.Do(t, os.Symlink(paths[0], link))
		must.Do(t, os.Lchown(link, nobody, nobody)) // that user can change its target
		expectOpen(t, link+"/d", "belongs to user 65534")
	}
}

func TestReadFile(t *testing.T) {
	dir := dirs(t, 0o700)[0]
	root, err := Open(dir)
	must.Do(t, err)
	defer root.Close()
	path := filepath.Join(dir, "f")
	expect := func(refusal string) {
		t.Helper()
		text, err := ReadFile(root, "f")
		if refusal == "" && (err != nil || string(text) != "x") || refusal != "" && (err == nil || !strings.Contains(err.Error(), refusal)) {
			t.Errorf("%q, %v; want %q", text, err, refusal)
		}
	}
	must.Do(t, os.WriteFile(path, []byte("x"), 0o600))
	expect("")
	must.Do(t, os.Chmod(path, 0o660))
	expect("may be written")
	must.Do(t, os.WriteFile(path, bytes.Repeat([]byte("x"), largestFile+1), 0o600))
	must.Do(t, os.Chmod(path, 0o600))
	expect("more than")
	if os.Geteuid() == 0 {
		must.Do(t, os.Chown(path, nobody, nobody))
		expect("belongs to user 65534")
	}
	must.Do(t, os.Rename(path, path+"2"))
	must.Do(t, os.Symlink("f2", path))
	expect("not a regular file")
	must.Do(t, os.Remove(path))
	must.Do(t, unix.Mkfifo(path, 0o600)) // opening it must not block
	expect("not a regular file")
	must.Do(t, os.Remove(path))
	if _, err := ReadFile(root, "f"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestIdentity(t *testing.T) {
	var seen []string
	for range 2 {
		path := dirs(t, 0o700)[0]
		for range 2 {
			root, err := Open(path)
			must.Do(t, err)
			identity, err := Identity(root)
			must.Do(t, err)
			must.Do(t, root.Close())
			seen = append(seen, identity)
			must.Do(t, os.Rename(path, path+"x")) // a rename does not change the identity
			path += "x"
		}
		must.Do(t, exec.Command("sleep", "0.05").Run()) // longer than the resolution of the filesystem's clock
	}
	if seen[0] != seen[1] || seen[2] != seen[3] || seen[0] == seen[2] {
		t.Errorf("identities %q, want two pairs", seen)
	}
}

// asNobody runs a command as another user, until the test ends.
func asNobody(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	command := exec.Command(name, args...)
	command.Dir = "/"
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, Pdeathsig: syscall.SIGKILL}
	return command
}

func TestNobodyElseCanLock(t *testing.T) {
	needsRoot(t)
	open := filepath.Join(os.TempDir(), fmt.Sprintf("pinfold-lock-test-%d", os.Getpid())) // where every user may create files
	defer os.Remove(open)
	for name, mode := range map[string]fs.FileMode{"a new file": 0, "one that was open to others": 0o666} {
		t.Run(name, func(t *testing.T) {
			must.Do(t, os.RemoveAll(open))
			if mode != 0 {
				must.Do(t, os.WriteFile(open, nil, mode))
			}
			lock, err := Lock(open)
			must.Do(t, err)
			must.Do(t, lock.Close())
			if text, err := asNobody(t, "flock", "-n", open, "true").CombinedOutput(); err == nil || !strings.Contains(string(text), "denied") {
				t.Errorf("another user can lock it: %v, %s", err, text)
			}
		})
	}
	must.Do(t, os.Chown(open, nobody, nobody))
	if _, err := Lock(open); err == nil {
		t.Error("another user's file is accepted")
	}
	must.Do(t, os.Remove(open))
	must.Do(t, os.Symlink("/etc/passwd", open))
	if _, err := Lock(open); err == nil {
		t.Error("a link is followed")
	}
}

func TestLockHasOneHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := Lock(path)
	must.Do(t, err)
	if _, err := Lock(path); !errors.Is(err, ErrHeld) {
		t.Errorf("a second holder: %v", err)
	}
	must.Do(t, os.Remove(path)) // as its holder does at the end
	must.Do(t, first.Close())
	second, err := Lock(path)
	must.Do(t, err)
	must.Do(t, second.Close())
}

func TestProtect(t *testing.T) {
	dir := dirs(t, 0o777)[0]
	must.Do(t, Protect(dir))
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v (%v)", info.Mode(), err)
	}
	link := filepath.Join(t.TempDir(), "link")
	must.Do(t, os.Symlink(dir, link))
	if err := Protect(link); err == nil {
		t.Error("a link is followed")
	}
	if os.Geteuid() == 0 {
		must.Do(t, os.Chown(dir, nobody, nobody))
		if err := Protect(dir); !errors.Is(err, ErrForeign) {
			t.Errorf("another user's directory: %v", err)
		}
	}
}
