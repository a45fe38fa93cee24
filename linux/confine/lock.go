package confine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/internal/sleep"
)

// errHeld reports that another run holds the lock.
var errHeld = errors.New("locked by another run")

// tryLock locks a group of this user as long as the file is open, here or in another process.
// Anyone who can open a directory can lock it, so the group must not be accessible to other users.
func tryLock(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.ENOSYS) {
		err = heldByName(dir)
	}
	if err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errHeld
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return f, nil
}

// placeLock is held while groups are created or cleaned up in one place. It is on a group created
// for that purpose, because other users can open the group above, and therefore lock it.
type placeLock struct{ file *os.File }

// lockPlace locks the group in which groups are created. It waits for other holders until ctx ends.
func lockPlace(ctx context.Context, above string) (*placeLock, error) {
	dir := above + lockGroup
	for {
		err := os.Mkdir(dir, privateMode)
		if err != nil && !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("lock %s: %w", above, err)
		}
		f, err := tryLock(dir)
		switch {
		case err == nil && isSame(f, dir):
			return &placeLock{f}, nil
		case err == nil: // the last holder removed the group after it was opened here
			f.Close()
			continue
		case errors.Is(err, os.ErrNotExist):
			continue
		case !errors.Is(err, errHeld):
			return nil, err
		}
		if !sleep.For(ctx, lockRetry) {
			return nil, fmt.Errorf("%w for too long: see 'lslocks' for who has it", err)
		}
	}
}

// release removes the group while it is locked.
func (l *placeLock) release() {
	_ = unix.Rmdir(l.file.Name()) // if that fails, the group remains unlocked
	l.file.Close()
}

// isSame reports whether dir still names the opened file.
func isSame(f *os.File, dir string) bool {
	opened, err1 := f.Stat()
	named, err2 := os.Lstat(dir)
	return err1 == nil && err2 == nil && os.SameFile(opened, named)
}

// heldByName replaces the lock on kernels without file locks (CONFIG_FILE_LOCKING, which small ones
// omit): a group is held as long as the process in its name exists. Runs with a given name need
// locks.
func heldByName(dir string) error {
	name := strings.TrimPrefix("/"+filepath.Base(dir), runPrefix)
	pid, _, _ := strings.Cut(name, "-")
	if !IsRun(dir) || pid == strconv.Itoa(os.Getpid()) {
		return nil
	}
	if CheckName(pid) == nil {
		return errors.New("the kernel has no file locks (CONFIG_FILE_LOCKING), which runs with a name need")
	}
	if _, err := os.Stat("/proc/" + pid); err == nil {
		return errHeld
	}
	return nil
}
