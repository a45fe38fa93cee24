package cgroup

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/bandwidth"
)

// StatReader reads the statistics and the limits of one group again and again. Its files
// stay open, two of version 1 or one of version 2 for the statistics and three or two
// for the limits, and reading allocates nothing.
//
// It is the reader of one group's life: when the group is removed, all that it says from
// then on is ErrGone, also when there is a new group of that name. Below a root where
// control groups are ordinary files the same is true of files that are removed or
// replaced; those that are written in place are read anew.
//
// It is for one goroutine at a time.
type StatReader struct {
	fs    *FS
	group string
	stat  heldFile
	usage heldFile // version 1
	// limits are opened when they are first asked for: not all who read statistics do.
	limits       []heldFile
	limitsOpened bool
}

// statSize is more than the kernel has to say in cpu.stat: 300 bytes in Linux 6.18.
const statSize = 640

// OpenStat opens the statistics of a group. The error is ErrGone if the group does not exist. On
// version 2 a group without a cpu controller has only usage.
func (fs *FS) OpenStat(group string) (*StatReader, error) {
	stat, err := fs.hold(group, CPUStat)
	if err != nil {
		return nil, err
	}
	r := &StatReader{fs: fs, group: group, stat: stat, usage: heldFile{fd: closed}}
	if fs.layout.CPU == V1 {
		if r.usage, err = fs.hold(group, CPUAcctUsage); err != nil {
			r.Close()
			return nil, err
		}
	}
	return r, nil
}

// Close closes the files. Reading is an error from then on.
func (r *StatReader) Close() {
	r.stat.close()
	r.usage.close()
	for i := range r.limits {
		r.limits[i].close()
	}
}

// Read reads the statistics, usage last. It is ErrGone when the group is gone.
func (r *StatReader) Read(s *Stat) error {
	var buffer [statSize]byte
	text, err := r.stat.read(buffer[:])
	if err != nil {
		return r.failed(CPUStat, err)
	}
	if err := s.parse(r.fs.layout.CPU, text); err != nil {
		return r.failed(CPUStat, err)
	}
	if r.fs.layout.CPU == V2 {
		return nil
	}
	if text, err = r.usage.read(buffer[:]); err != nil {
		return r.failed(CPUAcctUsage, err)
	}
	if s.Usage, err = parseTime(text, time.Nanosecond); err != nil {
		return r.failed(CPUAcctUsage, err)
	}
	return nil
}

// failed explains a failed read.
func (r *StatReader) failed(f File, err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return r.fs.readError(r.group, f, err)
	}
	return fmt.Errorf("read %s: %w", r.fs.File(r.group, f), err)
}

// Limits reads quota, period and burst. A group that can have no quota, as the root, is
// unlimited; burst that the kernel does not have is 0. On version 2 a group without a
// cpu controller is ErrNotEnabled.
func (r *StatReader) Limits() (bandwidth.Limits, error) {
	if !r.limitsOpened {
		if err := r.openLimits(); err != nil {
			return bandwidth.Limits{}, err
		}
	}
	l := bandwidth.Limits{Quota: bandwidth.Unlimited, Period: defaultPeriod}
	for i := range r.limits {
		if err := r.limits[i].readLimit(&l); err != nil {
			return bandwidth.Limits{}, r.failed(r.limits[i].file, err)
		}
	}
	return l, nil
}

// defaultPeriod is the kernel's (default_cfs_period of kernel/sched/fair.c).
const defaultPeriod = 100 * time.Millisecond

// openLimits opens those files of the limits that the group has.
func (r *StatReader) openLimits() error {
	for i, f := range r.fs.layout.limits() {
		h, err := r.fs.hold(r.group, f)
		if isUnsupported(err) && i == 0 {
			break // no quota, so no period and no burst
		}
		if isUnsupported(err) && f == r.fs.layout.burst() {
			continue
		}
		if err != nil {
			for i := range r.limits {
				r.limits[i].close()
			}
			r.limits = nil
			return err
		}
		r.limits = append(r.limits, h)
	}
	r.limitsOpened = true
	return nil
}

func (h *heldFile) readLimit(l *bandwidth.Limits) error {
	var buffer [64]byte
	text, err := h.read(buffer[:])
	if err != nil {
		return err
	}
	switch h.file {
	case CPUMax:
		*l, err = parseCPUMax(text) // the first of the files
	case CPUCFSQuota:
		l.Quota, err = parseQuota(text)
	case CPUCFSPeriod:
		l.Period, err = parseMicroseconds(text)
	default:
		l.Burst, err = parseMicroseconds(text)
	}
	return err
}

// heldFile is a file that stays open.
type heldFile struct {
	file File
	fd   int
	// ordinary says that it is no kernel's file: it can be removed and still be read.
	ordinary bool
}

// closed is the descriptor of a file that is not open.
const closed = -1

func (fs *FS) hold(group string, f File) (heldFile, error) {
	fd, err := openFile(fs.File(group, f), unix.O_RDONLY)
	if errors.Is(err, unix.EMFILE) {
		return heldFile{fd: closed}, fmt.Errorf("%w: raise the limit of open files (ulimit -n, or LimitNOFILE= of the service)",
			&os.PathError{Op: "open", Path: fs.File(group, f), Err: err})
	}
	if err != nil {
		return heldFile{fd: closed}, fs.readError(group, f, err)
	}
	var on unix.Statfs_t
	err = unix.Fstatfs(fd, &on)
	return heldFile{file: f, fd: fd, ordinary: err == nil && !isControlGroupType(on)}, nil
}

func (h *heldFile) close() {
	if h.fd != closed {
		_ = unix.Close(h.fd) // nothing was written to it
		h.fd = closed
	}
}

// read returns the file's content without white space around it, in the buffer. The
// kernel gives the whole of such a file at once (single_open of fs/seq_file.c).
func (h *heldFile) read(buffer []byte) ([]byte, error) {
	if h.ordinary {
		var is unix.Stat_t
		if err := unix.Fstat(h.fd, &is); err != nil {
			return nil, err
		}
		if is.Nlink == 0 {
			return nil, unix.ENODEV // what the kernel says of a removed group
		}
	}
	for {
		n, err := unix.Pread(h.fd, buffer, 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, err
		case n == len(buffer):
			return nil, fmt.Errorf("it has %d bytes or more", n)
		default:
			return trimSpace(buffer[:n]), nil
		}
	}
}

// trimSpace is bytes.TrimSpace for what the kernel writes, at a third of its cost.
func trimSpace(text []byte) []byte {
	for len(text) > 0 && (text[len(text)-1] == '\n' || text[len(text)-1] == ' ') {
		text = text[:len(text)-1]
	}
	return text
}
