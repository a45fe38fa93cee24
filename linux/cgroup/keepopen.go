package cgroup

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// openFiles holds files that stay open between reads, because opening and closing a file takes four
// times as long as reading it. The kernel produces the content anew at each read at offset 0, and
// returns ENODEV once the group is gone, even if there is a new one of the same name.
//
// Invariant: files holds at most limit files, each open and stored nowhere else.
type openFiles struct {
	mu     sync.Mutex
	limit  int // 0: files are not kept open
	files  map[fileName]*keptFile
	turn   uint64 // number of calls of CloseUnused
	buffer []byte // larger than the longest file so far
}

type fileName struct {
	group string
	file  File
}

type keptFile struct {
	*HeldFile
	turn uint64 // openFiles.turn at the last read
}

// KeepOpen keeps the files that are read from now on open. It must be called before the first read,
// by callers that read the same groups repeatedly and call [FS.CloseUnused] from time to time. At
// most half of the files that the process may open are kept open; others are opened for each read.
// An open file uses 4 KiB of kernel memory (its last content) and does not keep its group from
// being removed. KeepOpen has no effect on ordinary files in tests, because these may be replaced.
func (fs *FS) KeepOpen() {
	for _, h := range fs.byController {
		var on unix.Statfs_t
		if err := unix.Statfs(h.Mount, &on); err != nil || !isCgroupFS(on) {
			return
		}
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return // reading remains slow
	}
	fs.open.mu.Lock()
	defer fs.open.mu.Unlock()
	fs.open.limit = int(min(limit.Cur/2, 1<<20))
	fs.open.files, fs.open.buffer = map[fileName]*keptFile{}, make([]byte, 1024)
}

// CloseUnused closes the files that were not read since the last call, such as those of groups that
// are gone.
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

// Close closes all files that are kept open. Later reads open and close their files.
func (fs *FS) Close() {
	o := &fs.open
	o.mu.Lock()
	defer o.mu.Unlock()
	for name := range o.files {
		o.drop(name)
	}
	o.limit = 0
}

// drop closes a file. The caller must hold the lock.
func (o *openFiles) drop(name fileName) {
	o.files[name].Close()
	delete(o.files, name)
}

// read reads a file that is open, or that it may keep open; otherwise kept is false. Version 1 may
// return an old list of tasks while the file stays open (cgroup_pidlist_start of
// kernel/cgroup/cgroup-v1.c), so lists are not kept. It holds the lock during the read, so that no
// descriptor is closed and reused by another file meanwhile.
func (o *openFiles) read(fs *FS, group string, f File) (text string, kept bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.limit == 0 || !f.oneLine() && f != CPUStat {
		return "", false, nil
	}
	name := fileName{group, f}
	if k, ok := o.files[name]; ok {
		k.turn = o.turn
		text, err := k.read(&o.buffer)
		if err == nil {
			return string(text), true, nil
		}
		o.drop(name) // there may be a new group of the same name
		if !errors.Is(err, unix.ENODEV) {
			return "", true, err
		}
	}
	if len(o.files) >= o.limit {
		return "", false, nil
	}
	h, err := hold(fs, group, f)
	if err != nil {
		return "", true, err
	}
	o.files[name] = &keptFile{h, o.turn}
	content, err := h.read(&o.buffer)
	if err != nil {
		o.drop(name)
	}
	return string(content), true, err
}
