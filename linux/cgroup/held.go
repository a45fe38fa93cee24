package cgroup

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/linux/cgroup/internal/kernfile"
)

// HeldFile is a file of a group that stays open. Reading returns ErrGone once the group is removed,
// even if there is a new group of the same name. Ordinary files in tests behave alike: ErrGone is
// returned if they are removed or replaced, and files that are written in place are read anew.
type HeldFile struct {
	File  File
	fs    *FS
	group string
	fd    int
	// ordinary is true for a file in a test, which can still be read after it was removed.
	ordinary bool
}

// closed is the descriptor of a file that is not open.
const closed = -1

// Hold opens a file of a group. The error is ErrGone if the group does not exist.
func (fs *FS) Hold(group string, f File) (*HeldFile, error) {
	h, err := hold(fs, group, f)
	if errors.Is(err, unix.EMFILE) {
		return nil, fmt.Errorf("%w: raise the limit of open files (ulimit -n, or LimitNOFILE= of the service)",
			&os.PathError{Op: "open", Path: fs.File(group, f), Err: err})
	}
	if err != nil {
		return nil, fs.readError(group, f, err)
	}
	return h, nil
}

// hold is [FS.Hold] with the kernel's error.
func hold(fs *FS, group string, f File) (*HeldFile, error) {
	fd, err := kernfile.Open(fs.File(group, f), unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	var on unix.Statfs_t
	err = unix.Fstatfs(fd, &on)
	return &HeldFile{f, fs, group, fd, err == nil && !isCgroupFS(on)}, nil
}

func isCgroupFS(s unix.Statfs_t) bool {
	return s.Type == unix.CGROUP_SUPER_MAGIC || s.Type == unix.CGROUP2_SUPER_MAGIC
}

// Close closes the file. Later reads fail.
func (h *HeldFile) Close() {
	if h.fd != closed {
		_ = unix.Close(h.fd) // nothing was written to it
		h.fd = closed
	}
}

// Read returns the file's content, in the buffer, without white space at the end. It does not
// allocate unless the buffer is too small.
func (h *HeldFile) Read(buffer *[]byte) ([]byte, error) {
	text, err := h.read(buffer)
	if err != nil {
		return nil, h.fs.readError(h.group, h.File, err)
	}
	return text, nil
}

// Invalid adds the name of the file to an error of its content.
func (h *HeldFile) Invalid(err error) error {
	return fmt.Errorf("read %s: %w", h.fs.File(h.group, h.File), err)
}

// read is Read with the kernel's error. The kernel returns such a file completely in one read
// (single_open of fs/seq_file.c) if the buffer is large enough. So read enlarges a buffer that is
// full, and reads again.
func (h *HeldFile) read(buffer *[]byte) ([]byte, error) {
	if h.ordinary {
		var is unix.Stat_t
		if err := unix.Fstat(h.fd, &is); err != nil {
			return nil, err
		}
		if is.Nlink == 0 {
			return nil, unix.ENODEV // as the kernel does for a removed group
		}
	}
	for {
		text := *buffer
		n, err := unix.Pread(h.fd, text, 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, err
		case n == len(text):
			*buffer = make([]byte, 2*n)
		default:
			for n > 0 && text[n-1] <= ' ' { // a third of the cost of bytes.TrimSpace
				n--
			}
			return text[:n], nil
		}
	}
}
