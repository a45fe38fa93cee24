package cgroup

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/moby/sys/mountinfo"
)

// FS accesses the cgroups of a machine. A group is named by its path within the hierarchies, for
// example "/system.slice/cron.service", which is the same in all of them. An FS may be used by
// several goroutines, but callers must serialise changes of the same groups.
type FS struct {
	root         string // of the machine
	hierarchies  []Hierarchy
	byController map[Controller]Hierarchy
	lacking      map[Controller]error // why a controller has no hierarchy
	layout       Layout
	open         openFiles
	writes       writeCounts
}

// WriteCount counts the writes to one file, over all groups.
type WriteCount struct {
	Done    uint64
	Refused uint64
}

// writeCounts counts the writes to each file.
type writeCounts struct {
	mu     sync.Mutex
	byFile map[File]WriteCount
}

func (w *writeCounts) count(f File, refused bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.byFile[f]
	if refused {
		n.Refused++
	} else {
		n.Done++
	}
	w.byFile[f] = n
}

// Open finds the cgroups of the machine with the given root directory, using
// <root>/proc/self/mountinfo. The root is "/", except in tests and containers. If a controller has
// no hierarchy or two of them, the error is a HierarchyError. A read-only hierarchy is not an
// error: see [FS.CheckWritable].
func Open(root string) (*FS, error) {
	fs, err := OpenUsage(root)
	if err != nil {
		return nil, err
	}
	if err := fs.Require(CPU, CPUSet, CPUAcct); err != nil {
		return nil, err
	}
	return fs, nil
}

// OpenUsage is Open for callers that need no more than the CPU time that groups use, which version
// 2 counts without any controller: the controllers cpu and cpuset may have no hierarchy. Their
// files are then missing in all groups. See [FS.Require].
func OpenUsage(root string) (*FS, error) {
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
	mounts, err := mountinfo.GetMountsFromReader(f, nil)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	fs := &FS{root: root, byController: map[Controller]Hierarchy{}, lacking: map[Controller]error{}, writes: writeCounts{byFile: map[File]WriteCount{}}}
	if fs.hierarchies, err = findHierarchies(root, mounts); err != nil {
		return nil, err
	}
	for _, c := range []Controller{CPU, CPUSet, CPUAcct} {
		if fs.byController[c], err = choose(c, fs.hierarchies, name); err != nil {
			fs.lacking[c] = err
		}
	}
	if err := substitute(fs); err != nil {
		return nil, err
	}
	fs.layout = Layout{CPU: fs.byController[CPU].Version, CPUSet: fs.byController[CPUSet].Version}
	return fs, nil
}

// substitute gives controllers without a hierarchy the one that counts the use of CPU time: that of
// the cpu controller or of cpuacct, or else version 2.
func substitute(fs *FS) error {
	stand := fs.byController[CPU]
	if stand.Mount == "" {
		stand = fs.byController[CPUAcct]
	}
	if i := slices.IndexFunc(fs.hierarchies, func(h Hierarchy) bool { return h.Version == V2 }); stand.Mount == "" && i >= 0 {
		stand = fs.hierarchies[i]
	}
	if stand.Version == V2 {
		delete(fs.byController, CPUAcct)
		delete(fs.lacking, CPUAcct)
	}
	if stand.Mount == "" {
		return fs.Require(CPU, CPUSet)
	}
	if fs.lacking[CPUAcct] != nil {
		return fs.Require(CPU, CPUSet, CPUAcct)
	}
	for c, err := range fs.lacking {
		if errors.Is(err, ErrBothVersions) {
			return err
		}
		fs.byController[c] = stand
	}
	return nil
}

// Require returns a HierarchyError for each of the controllers that has no hierarchy.
func (fs *FS) Require(controllers ...Controller) error {
	var errs []error
	for _, c := range controllers {
		errs = append(errs, fs.lacking[c])
	}
	return errors.Join(errs...)
}

// Within returns the same cgroups with other roots: "/" is then the group given for the controller.
// Every controller must have one, except CPUAcct on version 2.
func (fs *FS) Within(roots map[Controller]string) *FS {
	within := &FS{root: fs.root, hierarchies: fs.hierarchies, lacking: fs.lacking, layout: fs.layout,
		byController: maps.Clone(fs.byController), writes: writeCounts{byFile: map[File]WriteCount{}}}
	for c, h := range fs.byController {
		h.Mount = fs.Dir(c, roots[c])
		within.byController[c] = h
	}
	return within
}

// Root returns the root directory of the machine.
func (fs *FS) Root() string { return fs.root }

// Layout returns the cgroup version of each controller.
func (fs *FS) Layout() Layout { return fs.layout }

// Hierarchy returns the hierarchy of a controller. For CPUAcct on version 2 it is the zero value.
func (fs *FS) Hierarchy(c Controller) Hierarchy { return fs.byController[c] }

// Hierarchies returns all mounted hierarchies, including those without CPU controllers.
func (fs *FS) Hierarchies() []Hierarchy { return slices.Clone(fs.hierarchies) }

// CheckWritable returns a HierarchyError for each hierarchy that is mounted read-only.
func (fs *FS) CheckWritable() error {
	var errs []error
	for _, c := range []Controller{CPU, CPUSet} {
		if h := fs.byController[c]; h.ReadOnly {
			errs = append(errs, &HierarchyError{c, h.Mount, ErrReadOnly,
				"mount it read-write; in a pod: a hostPath volume of /sys/fs/cgroup whose mount is not readOnly"})
		}
	}
	return errors.Join(errs...)
}

// Writes returns how often each file was written since Open.
func (fs *FS) Writes() map[File]WriteCount {
	fs.writes.mu.Lock()
	defer fs.writes.mu.Unlock()
	return maps.Clone(fs.writes.byFile)
}

// Dir returns the directory of a group in a controller's hierarchy.
func (fs *FS) Dir(c Controller, group string) string {
	if !strings.HasPrefix(group, "/") {
		group = "/" + group
	}
	// Both parts are clean, so this avoids path.Join: agents ask for thousands of paths a minute.
	if group = path.Clean(group); group == "/" {
		return fs.byController[c].Mount
	}
	return fs.byController[c].Mount + group
}

// Inode returns the inode number of a group's directory in a controller's hierarchy, by which the
// kernel's tracepoints and BPF name the group.
func (fs *FS) Inode(c Controller, group string) (uint64, error) {
	info, err := os.Stat(fs.Dir(c, group))
	if errors.Is(err, os.ErrNotExist) {
		return 0, fmt.Errorf("%s: %w", group, ErrGone)
	}
	if err != nil {
		return 0, fmt.Errorf("find control group %s: %w", group, err)
	}
	return info.Sys().(*syscall.Stat_t).Ino, nil
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

// Exists reports whether the group exists in the hierarchies of both the cpu and the cpuset
// controller.
func (fs *FS) Exists(group string) bool {
	return isDir(fs.Dir(CPU, group)) && isDir(fs.Dir(CPUSet, group))
}

// Children lists the groups directly below a group in a controller's hierarchy, sorted by name. A
// group that does not exist has none.
func (fs *FS) Children(c Controller, group string) ([]string, error) {
	dir := fs.Dir(c, group)
	if info, err := os.Stat(dir); err == nil && IsLeaf(info) {
		return nil, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !IsGone(err) {
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

// IsLeaf reports whether a directory has no directories in it: the kernel counts them as links (fs/kernfs/inode.c).
// Listing the files of each of 1000 groups takes 60 ms.
func IsLeaf(dir os.FileInfo) bool {
	stat, ok := dir.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink == 2
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
