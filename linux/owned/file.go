package owned

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// largestFile bounds what ReadFile reads.
const largestFile = 1 << 20

// ErrHeld says that another process has a lock.
var ErrHeld = errors.New("locked by another process")

// ReadFile reads a regular file that only this user can change. It does not follow a
// symbolic link.
func ReadFile(root *os.Root, name string) ([]byte, error) {
	path := filepath.Join(root.Name(), name)
	looked, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !looked.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	file, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	opened, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(looked, opened) { // by its owner, or it was another user's directory
		return ReadFile(root, name)
	}
	if err := check(path, opened); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, largestFile+1))
	if err == nil && len(text) > largestFile {
		err = fmt.Errorf("%s has more than %d bytes", path, largestFile)
	}
	return text, err
}

// Lock makes a file where there is none and locks it (flock(2)) for as long as it is
// open. Whoever can open a file can lock it, so the file must be this user's; its mode
// becomes 0600.
func Lock(path string) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, err
		}
		if err = lockOpen(file); err != nil {
			_ = file.Close() // the first error counts
			return nil, err
		}
		if named, err := os.Lstat(path); err == nil {
			if opened, err := file.Stat(); err == nil && os.SameFile(named, opened) {
				return file, nil
			}
		}
		_ = file.Close() // its last holder removed it after it was opened here
	}
}

func lockOpen(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", file.Name())
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, and this is user %d: %w; remove it", file.Name(), owner, os.Geteuid(), ErrForeign)
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := file.Chmod(0o600); err != nil {
			return err
		}
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("%s: %w", file.Name(), ErrHeld)
	}
	return os.NewSyscallError("flock", err)
}
