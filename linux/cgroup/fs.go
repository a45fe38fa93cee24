package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// FS is the control groups of a machine. Groups are named by their path within
// the hierarchies, "/system.slice/cron.service", the same in all of them. It may be used
// by many goroutines; changes of the same groups are for the caller to serialise.
type FS struct {
	root        string // of the machine
	hierarchies []Hierarchy
	of          map[Controller]Hierarchy
	layout      Layout
	open        openFiles

	mu     sync.Mutex
	writes map[File]WriteCount
}

// WriteCount counts the writes to one file, over all groups.
type WriteCount struct {
	Done    uint64
	Refused uint64
}

// Open finds the control groups of the machine whose root directory is given, "/"
// or, in tests and containers, another one: from <root>/proc/self/mountinfo. A
// controller without a hierarchy, or with two, is a HierarchyError. A read-only
// hierarchy is none: see FS.CheckWritable.
func Open(root string) (*FS, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("find the control groups below %s: %w", root, err)
	}
	name := filepath.Join(root, "proc/self/mountinfo")
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("find the mounted control groups: %w; is %s the root of a machine?", err, root)
	}
	defer f.Close()
	mounts, err := parseMountinfo(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	all, err := hierarchies(root, mounts)
	if err != nil {
		return nil, err
	}
	fs, err := newFS(all, name)
	if err != nil {
		return nil, err
	}
	fs.root = root
	return fs, nil
}

func newFS(all []Hierarchy, where string) (*FS, error) {
	fs := &FS{hierarchies: all, of: map[Controller]Hierarchy{}, writes: map[File]WriteCount{}}
	var errs []error
	for _, c := range []Controller{CPU, CPUSet} {
		h, err := find(c, all, where)
		if err != nil {
			errs = append(errs, err)
		}
		fs.of[c] = h
	}
	if fs.of[CPU].Version == V1 {
		h, err := find(CPUAcct, all, where)
		if err != nil {
			errs = append(errs, err)
		}
		fs.of[CPUAcct] = h
	}
	fs.layout = Layout{CPU: fs.of[CPU].Version, CPUSet: fs.of[CPUSet].Version}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return fs, nil
}

// Layout returns the cgroup version of each controller.
func (fs *FS) Layout() Layout { return fs.layout }

// Hierarchy returns the hierarchy of a controller. For CPUAcct on version 2 it is the zero value.
func (fs *FS) Hierarchy(c Controller) Hierarchy { return fs.of[c] }

// Hierarchies returns all mounted hierarchies, including those without CPU controllers.
func (fs *FS) Hierarchies() []Hierarchy { return slices.Clone(fs.hierarchies) }

// CheckWritable returns a HierarchyError for each hierarchy that is mounted
// read-only.
func (fs *FS) CheckWritable() error {
	var errs []error
	for _, c := range []Controller{CPU, CPUSet} {
		if h := fs.of[c]; h.ReadOnly {
			errs = append(errs, &HierarchyError{c, h.Mount, ErrReadOnly,
				"mount it read-write; in a pod: a hostPath volume of /sys/fs/cgroup that is not readOnly, and a privileged container"})
		}
	}
	return errors.Join(errs...)
}

// Writes returns how often each file was written since Open.
func (fs *FS) Writes() map[File]WriteCount {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	counts := make(map[File]WriteCount, len(fs.writes))
	for f, n := range fs.writes {
		counts[f] = n
	}
	return counts
}

func (fs *FS) count(f File, refused bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	n := fs.writes[f]
	if refused {
		n.Refused++
	} else {
		n.Done++
	}
	fs.writes[f] = n
}

// Dir returns the directory of a group in a controller's hierarchy.
func (fs *FS) Dir(c Controller, group string) string {
	if !strings.HasPrefix(group, "/") {
		group = "/" + group
	}
	// Both are clean then, and agents ask for thousands of paths a minute.
	if group = path.Clean(group); group == "/" {
		return fs.of[c].Mount
	}
	return fs.of[c].Mount + group
}

// File returns the path of a group's file on this machine.
func (fs *FS) File(group string, f File) string {
	return fs.Dir(f.Controller(), group) + "/" + string(f)
}

// GroupAt resolves name, a path within the hierarchies or a directory in one of them, to a path in
// the hierarchy.
func (fs *FS) GroupAt(name string) string {
	name = path.Clean("/" + name)
	within := ""
	for _, h := range fs.hierarchies {
		if isBelow(name, h.Mount) && len(h.Mount) > len(within) {
			within = h.Mount
		}
	}
	return path.Clean("/" + strings.TrimPrefix(name, within))
}

// Exists reports whether the group exists in the hierarchies of both the cpu and
// the cpuset controller.
func (fs *FS) Exists(group string) bool {
	return isDir(fs.Dir(CPU, group)) && isDir(fs.Dir(CPUSet, group))
}

// Children lists the groups directly below a group in a controller's hierarchy, sorted by name. A
// group that does not exist has none.
func (fs *FS) Children(c Controller, group string) ([]string, error) {
	entries, err := os.ReadDir(fs.Dir(c, group))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list the groups below %s: %w", group, err)
	}
	var paths []string
	for _, e := range entries {
		if e.IsDir() {
			paths = append(paths, path.Join(group, e.Name()))
		}
	}
	return paths, nil
}

// missing says why a file of a group is not there.
func (fs *FS) missing(group string, f File) error {
	c := f.Controller()
	h := fs.of[c]
	dir := fs.Dir(c, group)
	switch {
	case !isDir(h.Mount) || !isFile(filepath.Join(h.Mount, string(Procs))):
		return &HierarchyError{c, h.Mount, ErrNoHierarchy, "it was there and was unmounted: mount it again"}
	case !isDir(dir):
		return fmt.Errorf("%s: %w", dir, ErrGone)
	case h.Version == V2 && f != Threads && f != Procs && f != CPUStat:
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
		if err == nil && !slices.Contains(strings.Fields(string(text)), string(c)) {
			return fmt.Errorf("%s: %w: write +%s to cgroup.subtree_control of each group above", dir, ErrNotEnabled, c)
		}
	}
	return fmt.Errorf("%s: %w", dir, &UnsupportedError{string(f), f.since()})
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}
