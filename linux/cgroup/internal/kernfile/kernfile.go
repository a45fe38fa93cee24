// Package kernfile reads, writes and parses files of control groups, for the packages that do so.
package kernfile

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Open opens a file. It uses plain system calls, because the os package first offers each file to
// the poller, which takes as long as reading it, and the groups of a node have thousands of files.
func Open(name string, flags int) (int, error) {
	for {
		fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// Read returns the content of a file. One that is oneLine comes with one read; a list may come in
// several pieces, none of which fills the buffer.
func Read(name string, oneLine bool) ([]byte, error) {
	fd, err := Open(name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
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
			if n < len(buffer) && oneLine {
				return text, nil
			}
		}
	}
}

// Write writes a line with one system call, as the kernel requires.
func Write(name, value string) error {
	// Truncation has an effect only on ordinary files, in tests.
	fd, err := Open(name, unix.O_WRONLY|unix.O_TRUNC)
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

// Words returns the words of a file.
func Words(name string) ([]string, error) {
	text, err := os.ReadFile(name)
	return strings.Fields(string(text)), err
}
