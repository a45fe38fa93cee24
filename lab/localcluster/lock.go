package localcluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/linux/owned"
)

// lockName is the file by which a data directory is known to be a local cluster's, and
// that is locked while the cluster runs. It is the first file to come and the last one to
// go, so a directory without it holds nothing of a cluster. Its text is of one size:
//
//	pinfold-local data directory, IDENTITY
//	process       1234
//
// with what tells the directory from a copy of it (owned.Identity), and with the last
// holder.
const (
	lockName   = "lock"
	lockHead   = "pinfold-local data directory, %s\n"
	lockHolder = "process %10d\n"
)

// ErrRunning says that a supervisor holds the data directory.
var ErrRunning = errors.New("a local cluster is running")

// errNotMade says that no "up" has made or found empty a directory that has files.
var errNotMade = errors.New("was not made by pinfold-local up, or is a copy: it is left as it is")

// directoryLock is held for as long as a cluster uses a data directory. The
// kernel drops it with the process, however that ends. It is an open file
// description lock (fcntl(2), F_OFD_SETLK), which unlike flock(2) can be looked
// at without being taken.
type directoryLock struct{ file *os.File }

// wholeFile is the range of the lock.
func wholeFile() *unix.Flock_t {
	return &unix.Flock_t{Type: unix.F_WRLCK, Whence: unix.SEEK_SET}
}

// Claim makes a data directory, or takes an empty one, and writes down in it that it is
// a local cluster's. It refuses a directory that has anything else in it.
func Claim(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
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
	// The socket of etcd takes connections from whoever reaches it.
	if err := root.Chmod(".", 0o700); err != nil {
		return fmt.Errorf("protect the data directory: %w", err)
	}
	return mark(root)
}

// mark makes the lock file of an empty directory. It appears when it is whole.
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
	if named { // not every filesystem has files without a name
		file, err = root.OpenFile(lockName, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	}
	if err == nil {
		_, err = fmt.Fprintf(file, lockHead+lockHolder, identity, os.Getpid())
		err = errors.Join(err, file.Sync())
		if err == nil && !named {
			whole := fmt.Sprintf("/proc/self/fd/%d", file.Fd())
			err = unix.Linkat(unix.AT_FDCWD, whole, int(dir.Fd()), lockName, unix.AT_SYMLINK_FOLLOW)
		}
		err = errors.Join(err, file.Close())
	}
	if err != nil && !errors.Is(err, fs.ErrExist) { // another "up" was faster
		return fmt.Errorf("mark %s as a data directory: %w", root.Name(), err)
	}
	return nil
}

// readHolder returns the process that the lock file names, which need not hold the lock
// any more. Of an empty directory the error is ErrNotExist, of another one without a lock
// file for it errNotMade.
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
			return readHolder(root) // it has come in between
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
		return 0, fmt.Errorf("%s %w (its file %q says otherwise); choose an empty or a new directory", root.Name(), errNotMade, lockName)
	}
	return pid, nil
}

// lockDirectory takes the lock of a claimed directory, or says who has it.
func lockDirectory(dir string) (*directoryLock, error) {
	root, err := owned.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	defer root.Close()
	for {
		pid, err := readHolder(root)
		if err != nil {
			return nil, err
		}
		file, err := root.OpenFile(lockName, os.O_RDWR|unix.O_NONBLOCK, 0)
		if err != nil {
			return nil, fmt.Errorf("lock the data directory: %w", err)
		}
		if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, wholeFile()); err != nil {
			_ = file.Close() // read only
			if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
				return nil, fmt.Errorf("%w in %s (process %d)", ErrRunning, dir, pid)
			}
			return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
		}
		if !isStill(root, file) { // removed by its last holder after we opened it
			_ = file.Close() // read only
			continue
		}
		lock := &directoryLock{file: file}
		if err := lock.sign(); err != nil {
			_ = file.Close() // the first error counts
			return nil, err
		}
		return lock, nil
	}
}

// claimAndLock is Claim and lockDirectory, again when the last holder removes the
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

// sign leaves the holder's pid in the lock file, in one write: the text is never less than
// whole.
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

// holder returns the pid of the process that has the data directory locked, or
// 0 when there is none.
func holder(dir string) (int, error) {
	root, err := owned.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look at the data directory: %w", err)
	}
	defer root.Close()
	pid, err := readHolder(root)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	file, err := root.Open(lockName)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look at the lock: %w", err)
	}
	defer file.Close()
	obstacle := wholeFile()
	if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_GETLK, obstacle); err != nil {
		return 0, fmt.Errorf("look at the lock: %w", err)
	}
	if obstacle.Type == unix.F_UNLCK {
		return 0, nil
	}
	return pid, nil
}

func isStill(root *os.Root, file *os.File) bool {
	opened, err1 := file.Stat()
	named, err2 := root.Lstat(lockName)
	return err1 == nil && err2 == nil && os.SameFile(opened, named)
}
