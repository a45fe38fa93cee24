package owned

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// largestFile is the largest size in bytes that ReadFile accepts.
const largestFile = 1 << 20

// ErrHeld reports that another process holds the lock.
var ErrHeld = errors.New("locked by another process")

// ReadFile reads a regular file that only this user can change. It does not follow a symbolic link.
func ReadFile(root *os.Root, name string) ([]byte, error) {
	path := filepath.Join(root.Name(), name)
	found, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !found.Mode().IsRegular() {
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
	if !os.SameFile(found, opened) { // the owner replaced it, because no other user can change root
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

// Lock locks a file (flock(2)) as long as it is open. It creates the file if necessary. Anyone who
// can open a file can lock it, so the file must belong to this user, and its mode becomes 0600.
func Lock(path string) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, err
		}
		if err = lockOpen(file); err != nil {
			_ = file.Close() // the first error is returned
			return nil, err
		}
		if named, err := os.Lstat(path); err == nil {
			if opened, err := file.Stat(); err == nil && os.SameFile(named, opened) {
				return file, nil
			}
		}
		_ = file.Close() // the last holder removed the file after it was opened here
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
	if err := checkOwner(file.Name(), info); err != nil {
		return fmt.Errorf("%w; remove it", err)
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
