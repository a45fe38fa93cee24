package cgroup

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// openFiles are files that stay open from one read to the next: opening and closing one
// takes four times as long as reading it. The kernel answers each read at offset 0 anew,
// and with ENODEV once the group is gone, even when there is a new one of that name.
//
// Invariant: files holds at most limit descriptors, each open and in no other place.
type openFiles struct {
	mu    sync.Mutex
	limit int // 0: files are not kept open
	files map[fileName]*keptFile
	turn  uint64 // how often CloseUnused was called
}

type fileName struct {
	group string
	file  File
}

type keptFile struct {
	fd   int
	turn uint64 // when it was last read
}

// KeepOpen keeps the files that are read open from now on, up to half as many as the
// process may have open; more than that are opened and closed each time. It is called
// before any reading, by those who read the same groups again and again, and who call
// CloseUnused now and then. An open file takes 4 KiB of the kernel's memory (its last
// content), and keeps no group from being removed. Below a root where control groups are
// ordinary files nothing is kept open: such a file may be replaced by another one.
func (fs *FS) KeepOpen() {
	for _, h := range fs.of {
		if h.Mount != "" && !isControlGroup(h.Mount) {
			return
		}
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return // as before, only slower
	}
	fs.open.mu.Lock()
	defer fs.open.mu.Unlock()
	fs.open.limit = int(min(limit.Cur/2, 1<<20))
	fs.open.files = map[fileName]*keptFile{}
}

func isControlGroup(dir string) bool {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return false
	}
	return isControlGroupType(s)
}

func isControlGroupType(s unix.Statfs_t) bool {
	return s.Type == unix.CGROUP_SUPER_MAGIC || s.Type == unix.CGROUP2_SUPER_MAGIC
}

// keeps reports whether a file is one to keep open. Version 1 may answer with an old
// list of tasks while the file stays open (cgroup_pidlist_start of
// kernel/cgroup/cgroup-v1.c).
func (o *openFiles) keeps(f File) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.limit > 0 && (f.oneLine() || f == CPUStat)
}

// CloseUnused closes the files that were not read since the last call: those of groups that are
// gone or no longer of interest.
func (fs *FS) CloseUnused() {
	o := &fs.open
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, f := range o.files {
		if f.turn != o.turn {
			o.drop(name)
		}
	}
	o.turn++
}

// Close closes all files that are kept open; reading goes on without keeping any.
func (fs *FS) Close() {
	o := &fs.open
	o.mu.Lock()
	defer o.mu.Unlock()
	for name := range o.files {
		o.drop(name)
	}
	o.limit = 0
}

// drop closes a file. The lock must be held.
func (o *openFiles) drop(name fileName) {
	_ = unix.Close(o.files[name].fd) // nothing was written to it
	delete(o.files, name)
}

// readKept reads a file that may be open, and keeps it open when there is room. The
// lock is held while the kernel answers, so that no descriptor is closed, and given to
// another file, under a reader.
func (fs *FS) readKept(group string, f File) ([]byte, error) {
	o, name := &fs.open, fileName{group, f}
	o.mu.Lock()
	defer o.mu.Unlock()
	if kept, ok := o.files[name]; ok {
		text, err := readAll(kept.fd, f)
		if err == nil {
			kept.turn = o.turn
			return text, nil
		}
		o.drop(name) // there may be a new group of that name
		if !errors.Is(err, unix.ENODEV) {
			return nil, err
		}
	}
	fd, err := openFile(fs.File(group, f), unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	text, err := readAll(fd, f)
	if err != nil || len(o.files) >= o.limit {
		_ = unix.Close(fd)
		return text, err
	}
	o.files[name] = &keptFile{fd, o.turn}
	return text, nil
}
