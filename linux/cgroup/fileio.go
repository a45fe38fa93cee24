package cgroup

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// read returns the content of a group's file. It uses plain system calls: the
// os package would offer each file to the poller first, which takes as long as
// the reading, and a node's groups have some thousand files.
func (fs *FS) read(group string, f File) (string, error) {
	read := fs.readOnce
	if fs.open.keeps(f) {
		read = fs.readKept
	}
	text, err := read(group, f)
	if err != nil {
		return "", fs.readError(group, f, err)
	}
	return string(text), nil
}

func (fs *FS) readOnce(group string, f File) ([]byte, error) {
	fd, err := openFile(fs.File(group, f), unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return readAll(fd, f)
}

// readAll reads an open file from its beginning.
func readAll(fd int, f File) ([]byte, error) {
	var text []byte
	var buffer [4096]byte
	for {
		n, err := unix.Pread(fd, buffer[:], int64(len(text)))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, err
		case n == 0:
			return text, nil
		default:
			text = append(text, buffer[:n]...)
			if n < len(buffer) && f.oneLine() {
				return text, nil
			}
		}
	}
}

// readError explains a failed read. The files of a removed group that are still
// open give ENODEV.
func (fs *FS) readError(group string, f File, err error) error {
	switch {
	case errors.Is(err, unix.ENODEV):
		return fmt.Errorf("read %s: %w", fs.File(group, f), ErrGone)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return fs.missing(group, f)
	}
	return &os.PathError{Op: "read", Path: fs.File(group, f), Err: err}
}

// write writes a file with one system call, as the kernel wants it, and counts.
func (fs *FS) write(w Write) error {
	err := writeFile(fs.File(w.Path, w.File), w.Value)
	gone := errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)
	if !gone {
		fs.count(w.File, err != nil)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENODEV):
		return fmt.Errorf("write %s: %w", fs.File(w.Path, w.File), ErrGone)
	case gone:
		return fs.missing(w.Path, w.File)
	}
	refused := &WriteError{Write: w, Err: err}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		refused.Cause = cause(w.File, errno)
	}
	return refused
}

func writeFile(name, value string) error {
	// Truncation means nothing to the kernel's files; it does to a test's.
	fd, err := openFile(name, unix.O_WRONLY|unix.O_TRUNC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for {
		_, err = unix.Write(fd, []byte(value+"\n"))
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func openFile(name string, flags int) (int, error) {
	for {
		fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// readAs reads a file and parses it.
func readAs[T any](fs *FS, group string, f File, parse func(string) (T, error)) (T, error) {
	text, err := fs.read(group, f)
	if err != nil {
		var none T
		return none, err
	}
	value, err := parse(strings.TrimSpace(text))
	if err != nil {
		return value, fmt.Errorf("read %s: %w", fs.File(group, f), err)
	}
	return value, nil
}
