package cgroup

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// read returns the content of a group's file. It uses plain system calls, because the os package
// first offers each file to the poller, which takes as long as reading it, and the groups of a node
// have thousands of files.
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

// readAll reads an open file from the start.
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

// readError explains a failed read. Open files of a removed group return ENODEV.
func (fs *FS) readError(group string, f File, err error) error {
	switch {
	case errors.Is(err, unix.ENODEV):
		return fmt.Errorf("read %s: %w", fs.File(group, f), ErrGone)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return fs.missingError(group, f)
	}
	return &os.PathError{Op: "read", Path: fs.File(group, f), Err: err}
}

// write writes a file and counts the write.
func (fs *FS) write(w Write) error {
	err := writeFile(fs.File(w.Path, w.File), w.Value)
	switch {
	case errors.Is(err, unix.ENODEV):
		return fmt.Errorf("write %s: %w", fs.File(w.Path, w.File), ErrGone)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return fs.missingError(w.Path, w.File)
	}
	fs.countWrite(w.File, err != nil)
	if err == nil {
		return nil
	}
	refused := &WriteError{Write: w, Err: err}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		refused.Cause = likelyCause(w.File, errno)
	}
	return refused
}

// writeFile writes a line with one system call, as the kernel requires.
func writeFile(name, value string) error {
	// Truncation has an effect only on ordinary files, in tests.
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

// trim removes white space and NUL characters around the content of a file.
func trim(text string) string {
	return strings.TrimFunc(text, func(r rune) bool { return r <= ' ' })
}

// readAs reads and parses a file.
func readAs[T any](fs *FS, group string, f File, parse func(string) (T, error)) (T, error) {
	text, err := fs.read(group, f)
	if err != nil {
		var none T
		return none, err
	}
	value, err := parse(trim(text))
	if err != nil {
		return value, fmt.Errorf("read %s: %w", fs.File(group, f), err)
	}
	return value, nil
}
