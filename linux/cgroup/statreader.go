package cgroup

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/bandwidth"
)

// StatReader reads the statistics and limits of one group repeatedly without allocating. Its files
// stay open: two on version 1 or one on version 2 for the statistics, and three or two for the
// limits.
//
// Once the group is removed, all methods return ErrGone, even if there is a new group of the same
// name. Ordinary files in tests behave alike: ErrGone is returned if they are removed or replaced,
// and files that are written in place are read anew.
//
// A StatReader must not be used by several goroutines at the same time.
type StatReader struct {
	fs    *FS
	group string
	stat  heldFile // closed on version 1 if the kernel has no limits
	usage heldFile // version 1
	// buffer is larger than the longest file so far.
	buffer []byte
	// limits are opened by the first call of Limits, because not all callers need them.
	limits       []heldFile
	limitsOpened bool
}

// statSize is larger than cpu.stat of Linux 6.18, which has 300 bytes. Vendors' kernels have more.
const statSize = 640

// OpenStat opens the statistics of a group. The error is ErrGone if the group does not exist. A
// group without a cpu controller has only usage, as [FS.Stat] describes.
func (fs *FS) OpenStat(group string) (*StatReader, error) {
	stat, err := fs.hold(group, CPUStat)
	if err != nil && (fs.layout.CPU == V2 || !isUnsupported(err)) {
		return nil, err
	}
	r := &StatReader{fs: fs, group: group, stat: stat, usage: heldFile{fd: closed}, buffer: make([]byte, statSize)}
	if fs.layout.CPU == V1 {
		if r.usage, err = fs.hold(group, CPUAcctUsage); err != nil {
			r.Close()
			return nil, err
		}
	}
	return r, nil
}

// Close closes the files. Later reads fail.
func (r *StatReader) Close() {
	r.stat.close()
	r.usage.close()
	for i := range r.limits {
		r.limits[i].close()
	}
}

// Read reads the statistics, with usage last. The error is ErrGone if the group no longer exists.
func (r *StatReader) Read(s *Stat) error {
	*s = Stat{}
	if r.stat.fd != closed || r.fs.layout.CPU == V2 {
		text, err := r.stat.read(&r.buffer)
		if err != nil {
			return r.failed(CPUStat, err)
		}
		if err := s.parse(r.fs.layout.CPU, text); err != nil {
			return r.failed(CPUStat, err)
		}
	}
	if r.fs.layout.CPU == V2 {
		return nil
	}
	text, err := r.usage.read(&r.buffer)
	if err != nil {
		return r.failed(CPUAcctUsage, err)
	}
	if s.Usage, err = parseTime(text, time.Nanosecond); err != nil {
		return r.failed(CPUAcctUsage, err)
	}
	return nil
}

// failed adds the file to an error of a read, and explains it if it is an errno.
func (r *StatReader) failed(f File, err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return r.fs.readError(r.group, f, err)
	}
	return fmt.Errorf("read %s: %w", r.fs.File(r.group, f), err)
}

// Limits reads quota, period and burst. A group that cannot have a quota is unlimited: the root, or
// a group without the cpu controller. Burst is 0 if the kernel does not have it.
func (r *StatReader) Limits() (bandwidth.Limits, error) {
	if !r.limitsOpened {
		if err := r.openLimits(); err != nil {
			return bandwidth.Limits{}, err
		}
	}
	// The kernel's default period; default_cfs_period of kernel/sched/fair.c.
	l := bandwidth.Limits{Quota: bandwidth.Unlimited, Period: 100 * time.Millisecond}
	for i := range r.limits {
		if err := r.limits[i].readLimit(&l, &r.buffer); err != nil {
			return bandwidth.Limits{}, r.failed(r.limits[i].file, err)
		}
	}
	return l, nil
}

// openLimits opens the files of the limits, as far as the group has them.
func (r *StatReader) openLimits() error {
	files := []File{CPUMax, CPUMaxBurst}
	if r.fs.layout.CPU == V1 {
		files = []File{CPUCFSQuota, CPUCFSPeriod, CPUCFSBurst}
	}
	for i, f := range files {
		h, err := r.fs.hold(r.group, f)
		if i == 0 && errors.Is(err, ErrNotEnabled) {
			return nil // it may be enabled later
		}
		if i == 0 && isUnsupported(err) {
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

func (h *heldFile) readLimit(l *bandwidth.Limits, buffer *[]byte) error {
	text, err := h.read(buffer)
	if err != nil {
		return err
	}
	switch h.file {
	case CPUMax:
		*l, err = parseCPUMax(text) // read first, so it does not overwrite the burst
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
	// ordinary is true for a file in a test, which can still be read after it was removed.
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
	return heldFile{file: f, fd: fd, ordinary: err == nil && !isCgroupFS(on)}, nil
}

func (h *heldFile) close() {
	if h.fd != closed {
		_ = unix.Close(h.fd) // nothing was written to it
		h.fd = closed
	}
}

// read returns the file's content, in the buffer, without white space at the end. The kernel
// returns such a file completely in one read (single_open of fs/seq_file.c) if the buffer is large
// enough. So read enlarges a buffer that is full, and reads again.
func (h *heldFile) read(buffer *[]byte) ([]byte, error) {
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
