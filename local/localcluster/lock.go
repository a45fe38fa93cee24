package localcluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/linux/owned"
)

// lockName is the file that marks a directory as a data directory and that is locked while a
// cluster runs. It is the first file to be created and the last to be removed, so a directory
// without it contains nothing of a cluster. Its text has a fixed size:
//
//	pinfold-local data directory, IDENTITY
//	process       1234
//
// IDENTITY distinguishes the directory from its copies (owned.Identity). The process is the last
// holder of the lock.
const (
	lockName   = "lock"
	lockHead   = "pinfold-local data directory, %s\n"
	lockHolder = "process %10d\n"
)

// ErrRunning reports that a supervisor has locked the data directory.
var ErrRunning = errors.New("a local cluster is running")

// errNotMade reports that a directory is not empty and not a data directory.
var errNotMade = errors.New("was not made by pinfold-local up, or is a copy: it is not changed")

// directoryLock is the lock of a data directory. The kernel releases it when the process ends for
// any reason. It is an open file description lock (fcntl(2), F_OFD_SETLK), which, unlike flock(2),
// can be tested without taking it.
type directoryLock struct{ file *os.File }

// wholeFile returns the range of the lock.
func wholeFile() *unix.Flock_t {
	return &unix.Flock_t{Type: unix.F_WRLCK, Whence: unix.SEEK_SET}
}

// Claim creates a data directory, or makes an empty directory one. It rejects a directory with
// files of other programs.
func Claim(dir string) error {
	if err := owned.Make(dir, 0o700); err != nil {
		return fmt.Errorf("create the data directory: %w", err)
	}
	root, err := owned.Open(dir)
	if err != nil {
		return fmt.Errorf("use the data directory: %w", err)
	}
	defer root.Close()
	_, err = readHolder(root)
	switch {
	case err == nil:
		return layout{root.Name()}.checkUsable()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	// The socket of etcd accepts connections of every user who can reach it.
	if err := root.Chmod(".", 0o700); err != nil {
		return fmt.Errorf("protect the data directory: %w", err)
	}
	return mark(root)
}

// mark creates the lock file in an empty directory. The file appears only when it is complete.
func mark(root *os.Root) error {
	identity, err := owned.Identity(root)
	if err != nil {
		return err
	}
	dir, err := root.Open(".")
	if err != nil {
		return fmt.Errorf("mark %s as a data directory: %w", root.Name(), err)
	}
	defer dir.Close()
	file, err := root.OpenFile(".", unix.O_TMPFILE|os.O_RDWR, 0o600)
	named := errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR)
	if named { // not every filesystem supports O_TMPFILE
		file, err = root.OpenFile(lockName, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	}
	if err == nil {
		_, err = fmt.Fprintf(file, lockHead+lockHolder, identity, os.Getpid())
		err = errors.Join(err, file.Sync())
		if err == nil && !named {
			unnamed := fmt.Sprintf("/proc/self/fd/%d", file.Fd())
			err = unix.Linkat(unix.AT_FDCWD, unnamed, int(dir.Fd()), lockName, unix.AT_SYMLINK_FOLLOW)
		}
		err = errors.Join(err, file.Close())
	}
	if err != nil && !errors.Is(err, fs.ErrExist) { // ErrExist: another process marked it first
		return fmt.Errorf("mark %s as a data directory: %w", root.Name(), err)
	}
	return nil
}

// readHolder returns the process in the lock file, which may have released the lock. The error is
// ErrNotExist for an empty directory, and errNotMade for one that has files but no valid lock file.
func readHolder(root *os.Root) (pid int, err error) {
	text, err := owned.ReadFile(root, lockName)
	if errors.Is(err, fs.ErrNotExist) {
		entries, err := fs.ReadDir(root.FS(), ".")
		switch {
		case err != nil:
			return 0, fmt.Errorf("read the data directory: %w", err)
		case len(entries) == 0:
			return 0, fmt.Errorf("the data directory is empty: %w", fs.ErrNotExist)
		case slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == lockName }):
			return readHolder(root) // it was created meanwhile
		}
		return 0, fmt.Errorf("%s contains %q and %w; choose an empty or a new directory", root.Name(), entries[0].Name(), errNotMade)
	}
	if err != nil {
		return 0, fmt.Errorf("read the lock file: %w", err)
	}
	identity, err := owned.Identity(root)
	if err != nil {
		return 0, err
	}
	rest, ours := strings.CutPrefix(string(text), fmt.Sprintf(lockHead, identity))
	number, signed := strings.CutPrefix(strings.TrimSuffix(rest, "\n"), "process ")
	pid, err = strconv.Atoi(strings.TrimLeft(number, " "))
	if !ours || !signed || err != nil || pid <= 0 {
		return 0, fmt.Errorf("%s %w (the content of its file %q does not match); choose an empty or a new directory", root.Name(), errNotMade, lockName)
	}
	return pid, nil
}

// openLock opens the lock file of a claimed directory, and returns the last holder of the lock.
func openLock(dir string, flag int) (file *os.File, pid int, err error) {
	root, err := owned.Open(dir)
	if err != nil {
		return nil, 0, fmt.Errorf("open the data directory: %w", err)
	}
	defer root.Close()
	if pid, err = readHolder(root); err != nil {
		return nil, 0, err
	}
	if file, err = root.OpenFile(lockName, flag|unix.O_NONBLOCK, 0); err != nil {
		return nil, 0, fmt.Errorf("open the lock: %w", err)
	}
	return file, pid, nil
}

// lockDirectory takes the lock of a claimed directory. The error ErrRunning names the holder.
func lockDirectory(dir string) (*directoryLock, error) {
	for begin := time.Now(); ; {
		file, pid, err := openLock(dir, os.O_RDWR)
		if err != nil {
			return nil, err
		}
		err = unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, wholeFile())
		if err == nil && isCurrent(file) {
			lock := &directoryLock{file: file}
			if err = lock.sign(); err == nil {
				return lock, nil
			}
		}
		_ = file.Close() // the first error explains more
		switch {
		case err == nil: // its last holder removed it after it was opened
		case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES):
			return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
		case errors.Is(unix.Kill(pid, 0), unix.ESRCH) && time.Since(begin) < time.Second:
			// A child that a killed holder was starting has the lock until it executes its program.
			time.Sleep(time.Millisecond)
		default:
			return nil, fmt.Errorf("%w in %s (process %d)", ErrRunning, dir, pid)
		}
	}
}

// claimAndLock claims and locks a directory. It tries again if the last holder removes the
// directory meanwhile.
func claimAndLock(dir string) (lock *directoryLock, err error) {
	const tries = 100
	for range tries {
		if err = Claim(dir); err == nil {
			lock, err = lockDirectory(dir)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return lock, err
}

// sign writes this process's pid into the lock file, in one write, so that the text is always
// complete.
func (l *directoryLock) sign() error {
	text := fmt.Appendf(nil, lockHolder, os.Getpid())
	info, err := l.file.Stat()
	if err == nil {
		_, err = l.file.WriteAt(text, info.Size()-int64(len(text)))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", l.file.Name(), err)
	}
	return nil
}

func (l *directoryLock) release() { _ = l.file.Close() }

// holder returns the pid of the process that has locked the data directory, 0 if there is none.
func holder(dir string) (int, error) {
	file, pid, err := openLock(dir, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer file.Close()
	conflict := wholeFile()
	if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_GETLK, conflict); err != nil {
		return 0, fmt.Errorf("test the lock: %w", err)
	}
	if conflict.Type == unix.F_UNLCK {
		return 0, nil
	}
	return pid, nil
}

// isCurrent reports whether file is still the lock file.
func isCurrent(file *os.File) bool {
	opened, err1 := file.Stat()
	named, err2 := os.Lstat(file.Name())
	return err1 == nil && err2 == nil && os.SameFile(opened, named)
}
