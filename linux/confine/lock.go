package confine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// errHeld says that somebody else has the lock.
var errHeld = errors.New("locked by another run")

// tryLock locks a directory for as long as the file, or a copy of it in another
// process, is open.
func tryLock(dir string) (*os.File, error) {
	f, err := os.Open(dir)
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

// lock is tryLock that waits for others until ctx ends.
func lock(ctx context.Context, dir string) (*os.File, error) {
	for {
		f, err := tryLock(dir)
		if !errors.Is(err, errHeld) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w for too long: see 'lslocks' for who has it", err)
		case <-time.After(lockRetry):
		}
	}
}

// heldByName stands in for the lock on kernels without any (CONFIG_FILE_LOCKING, which
// small ones leave out): a group is held while the process in its name is there.
func heldByName(dir string) error {
	name, isRun := strings.CutPrefix("/"+filepath.Base(dir), runPrefix)
	pid, _, _ := strings.Cut(name, "-")
	if !isRun || pid == strconv.Itoa(os.Getpid()) {
		return nil
	}
	if _, err := os.Stat("/proc/" + pid); err == nil {
		return errHeld
	}
	return nil
}
