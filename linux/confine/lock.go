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

// errHeld says that somebody else has the lock.
var errHeld = errors.New("locked by another run")

// tryLock locks a group of this user's for as long as the file, or a copy of it in another
// process, is open. Whoever can open a directory can lock it, so nobody else may open this
// one.
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

// placeLock is held by who makes and cleans up groups in one place. It is on a group that
// is made for it, since the group above is open to everybody.
type placeLock struct{ file *os.File }

// lockPlace locks the group below which groups are made, and waits for others until ctx
// ends.
func lockPlace(ctx context.Context, above string) (*placeLock, error) {
	dir := above + lockGroup
	for {
		err := os.Mkdir(dir, privateMode)
		if err != nil && !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("lock %s: %w", above, err)
		}
		f, err := tryLock(dir)
		switch {
		case err == nil && isStill(f, dir):
			return &placeLock{f}, nil
		case err == nil: // its last holder removed it after it was opened here
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
	_ = unix.Rmdir(l.file.Name()) // what stays is locked by nobody
	l.file.Close()
}

func isStill(f *os.File, dir string) bool {
	opened, err1 := f.Stat()
	named, err2 := os.Lstat(dir)
	return err1 == nil && err2 == nil && os.SameFile(opened, named)
}

// heldByName stands in for the lock on kernels without any (CONFIG_FILE_LOCKING, which
// small ones leave out): a group is held while the process in its name is there. Runs that
// were given a name need the lock.
func heldByName(dir string) error {
	name, isRun := strings.CutPrefix("/"+filepath.Base(dir), runPrefix)
	pid, _, _ := strings.Cut(name, "-")
	if !isRun || pid == strconv.Itoa(os.Getpid()) {
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
