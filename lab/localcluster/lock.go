package localcluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const lockName = "lock"

// ErrRunning says that a supervisor holds the data directory.
var ErrRunning = errors.New("a local cluster is running")

// directoryLock is held for as long as a cluster uses a data directory. The
// kernel drops it with the process, however that ends. It is an open file
// description lock (fcntl(2), F_OFD_SETLK), which unlike flock(2) can be looked
// at without being taken.
type directoryLock struct{ file *os.File }

// wholeFile is the range of the lock.
func wholeFile() *unix.Flock_t {
	return &unix.Flock_t{Type: unix.F_WRLCK, Whence: unix.SEEK_SET}
}

// lockDirectory takes the lock, or says who has it.
func lockDirectory(dir string) (*directoryLock, error) {
	path := filepath.Join(dir, lockName)
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("lock the data directory: %w", err)
		}
		if err := unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, wholeFile()); err != nil {
			_ = file.Close() // read only
			if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
				return nil, fmt.Errorf("%w in %s%s", ErrRunning, dir, byProcess(dir))
			}
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !isStill(file, path) { // removed by its last holder after we opened it
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

// sign leaves the holder's pid in the lock file.
func (l *directoryLock) sign() error {
	if err := l.file.Truncate(0); err != nil {
		return fmt.Errorf("write %s: %w", l.file.Name(), err)
	}
	if _, err := l.file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return fmt.Errorf("write %s: %w", l.file.Name(), err)
	}
	return nil
}

func (l *directoryLock) release() { _ = l.file.Close() }

// holder returns the pid of the process that has the data directory locked, or
// 0 when there is none.
func holder(dir string) (int, error) {
	file, err := os.Open(filepath.Join(dir, lockName))
	if errors.Is(err, os.ErrNotExist) {
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
	return signature(dir)
}

func signature(dir string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, lockName))
	if err != nil {
		return 0, fmt.Errorf("look at the lock: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 0 {
		return 0, fmt.Errorf("the lock file of %s contains %q instead of a pid", dir, text)
	}
	return pid, nil
}

func byProcess(dir string) string {
	pid, err := signature(dir)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (process %d)", pid)
}

func isStill(file *os.File, path string) bool {
	opened, err1 := file.Stat()
	named, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(opened, named)
}
