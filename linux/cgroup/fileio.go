package cgroup

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/linux/cgroup/internal/kernfile"
)

// ReadAs reads and parses a file of a group.
func ReadAs[T any](fs *FS, group string, f File, parse func(string) (T, error)) (value T, err error) {
	text, err := fs.read(group, f)
	if err != nil {
		return value, err
	}
	if value, err = parse(text); err != nil {
		return value, fmt.Errorf("read %s: %w", fs.File(group, f), err)
	}
	return value, nil
}

// read returns the content of a file without the white space and NUL characters around it.
func (fs *FS) read(group string, f File) (string, error) {
	text, kept, err := fs.open.read(fs, group, f)
	if !kept {
		var content []byte
		content, err = kernfile.Read(fs.File(group, f), f.oneLine())
		text = string(content)
	}
	if err != nil {
		return "", fs.readError(group, f, err)
	}
	return strings.TrimFunc(text, func(r rune) bool { return r <= ' ' }), nil
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
	err := kernfile.Write(fs.File(w.Path, w.File), w.Value)
	switch {
	case errors.Is(err, unix.ENODEV):
		return fmt.Errorf("write %s: %w", fs.File(w.Path, w.File), ErrGone)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return fs.missingError(w.Path, w.File)
	}
	fs.writes.count(w.File, err != nil)
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
