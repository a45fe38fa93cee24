package cgrouptree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/internal/kernfile"
)

const (
	busyRetry     = 5 * time.Millisecond
	directoryMode = 0o755
)

// selected is a hierarchy with those of the selected controllers that it has.
type selected struct {
	cgroup.Hierarchy
	controllers []cgroup.Controller
}

// hierarchiesOf returns the hierarchies of the controllers, each once. It omits CPUAcct on version
// 2.
func hierarchiesOf(fs *cgroup.FS, controllers []cgroup.Controller) []selected {
	var all []selected
	for _, c := range controllers {
		h := fs.Hierarchy(c)
		if h.Mount == "" {
			continue
		}
		i := slices.IndexFunc(all, func(o selected) bool { return o.Mount == h.Mount })
		if i < 0 {
			i = len(all)
			all = append(all, selected{Hierarchy: h})
		}
		all[i].controllers = append(all[i].controllers, c)
	}
	return all
}

// Make creates a group in the hierarchies of the given controllers. Its parent must exist, and the
// group must not. On version 2 the parent delegates the controllers from then on. A new cpuset has
// the CPUs and memory nodes of its parent. On an error, no part of the group remains.
func Make(fs *cgroup.FS, group string, controllers ...cgroup.Controller) error {
	return MakeMode(fs, group, directoryMode, controllers...)
}

// MakeMode is Make with the given mode for the group's directories, which determines who else may
// open them.
func MakeMode(fs *cgroup.FS, group string, mode os.FileMode, controllers ...cgroup.Controller) error {
	group = path.Clean("/" + group)
	var made []string
	for _, h := range hierarchiesOf(fs, controllers) {
		dir := filepath.Join(h.Mount, group)
		err := h.delegate(filepath.Dir(dir))
		if err == nil {
			if err = os.Mkdir(dir, mode); err == nil {
				made = append(made, dir)
				err = h.inherit(dir)
			}
		}
		if err != nil {
			for _, dir := range made {
				err = errors.Join(err, os.Remove(dir))
			}
			return fmt.Errorf("make a control group: %w", err)
		}
	}
	return nil
}

// delegate makes a group of version 2 delegate the controllers to the groups below it.
func (h selected) delegate(dir string) error {
	if h.Version != cgroup.V2 {
		return nil
	}
	delegated, err := kernfile.Words(filepath.Join(dir, cgroup.SubtreeControl))
	if err != nil {
		return err
	}
	for _, c := range h.controllers {
		if slices.Contains(delegated, string(c)) {
			continue
		}
		err := kernfile.Write(filepath.Join(dir, cgroup.SubtreeControl), "+"+string(c))
		switch {
		case errors.Is(err, unix.EBUSY):
			return fmt.Errorf("delegate %s from %s: %w: the group has processes of its own", c, dir, err)
		case errors.Is(err, unix.ENOENT):
			return fmt.Errorf("delegate %s from %s: %w", c, dir, cgroup.ErrNotEnabled)
		case err != nil:
			return fmt.Errorf("delegate %s from %s: %w", c, dir, err)
		}
	}
	return nil
}

// inherit copies the parent's CPUs and memory nodes to a new cpuset of version 1. It is created
// empty, and an empty cpuset accepts no process.
func (h selected) inherit(dir string) error {
	if h.Version != cgroup.V1 || !slices.Contains(h.controllers, cgroup.CPUSet) {
		return nil
	}
	for _, f := range []string{"cpuset.mems", string(cgroup.CPUSetCPUs)} {
		above, err := os.ReadFile(filepath.Join(filepath.Dir(dir), f))
		if err != nil {
			return err
		}
		if err := kernfile.Write(filepath.Join(dir, f), strings.TrimSpace(string(above))); err != nil {
			return fmt.Errorf("write %s of %s: %w", f, dir, err)
		}
	}
	return nil
}

// Move moves a process, with all its threads, to a group. The process 0 is this one.
func Move(fs *cgroup.FS, group string, pid int, controllers ...cgroup.Controller) error {
	for _, h := range hierarchiesOf(fs, controllers) {
		name := filepath.Join(h.Mount, group, string(cgroup.Procs))
		err := kernfile.Write(name, strconv.Itoa(pid))
		cause := ""
		switch {
		case err == nil:
			continue
		case errors.Is(err, unix.EINVAL):
			cause = ": a process of a real-time policy cannot enter a group without real-time budget: use chrt --other 0"
		case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
			cause = ": this user may not move processes there"
		}
		return fmt.Errorf("enter a control group: write %s: %w%s", name, err, cause)
	}
	return nil
}

// Remove removes a group and its descendants from the hierarchies of the controllers. It waits
// until the processes in it have ended, or until ctx ends. It is not an error if the group does not
// exist.
func Remove(ctx context.Context, fs *cgroup.FS, group string, controllers ...cgroup.Controller) error {
	var errs []error
	for _, h := range hierarchiesOf(fs, controllers) {
		errs = append(errs, RemoveDir(ctx, filepath.Join(h.Mount, group)))
	}
	return errors.Join(errs...)
}

// RemoveDir is Remove for the group whose directory is given, in one hierarchy.
func RemoveDir(ctx context.Context, dir string) error {
	err := removeTree(dir)
	for err != nil && sleep.For(ctx, busyRetry) {
		err = removeTree(dir)
	}
	if err != nil {
		return fmt.Errorf("remove a control group: %w", err)
	}
	return nil
}

func removeTree(dir string) error {
	below, err := DirsBelow(dir)
	if len(below) == 0 {
		return err
	}
	for _, d := range slices.Backward(below) {
		if errRemove := os.Remove(d); errRemove != nil && !cgroup.IsGone(errRemove) {
			return errors.Join(errRemove, err)
		}
	}
	return nil
}

// UnlistedError names groups that cannot be listed, mostly because another user keeps them private.
type UnlistedError struct {
	Dirs []string
	Err  error // of the first
}

func (e *UnlistedError) Error() string {
	text := e.Dirs[0]
	if n := len(e.Dirs) - 1; n > 0 {
		text += " and " + quantity.Count(n, "other group")
	}
	text = fmt.Sprintf("the groups below %s cannot be listed: %v", text, e.Err)
	if errors.Is(e.Err, os.ErrPermission) {
		text += ": run as their user, or as root with CAP_DAC_READ_SEARCH"
	}
	return text
}

func (e *UnlistedError) Unwrap() error { return e.Err }

// Add adds a directory that a walk could not list, unless it was removed meanwhile.
func (e *UnlistedError) Add(dir string, err error) {
	if !cgroup.IsGone(err) {
		e.Dirs = append(e.Dirs, dir)
		e.Err = cmp.Or(e.Err, errors.Unwrap(err), err) // without the name
	}
}

// ErrorOrNil returns nil if no directory was added.
func (e *UnlistedError) ErrorOrNil() error {
	if len(e.Dirs) == 0 {
		return nil
	}
	return e
}

// DirsBelow lists the directories of a group and its descendants, parents before children. A group
// that does not exist has none, and those that are removed meanwhile are left out. An error is an
// [UnlistedError]: the list then lacks what is below the groups that it names, and nothing else.
func DirsBelow(dir string) ([]string, error) {
	var all []string
	var unlisted UnlistedError
	_ = filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			unlisted.Add(name, err)
		case d.IsDir():
			all = append(all, name)
		}
		return nil
	})
	return all, unlisted.ErrorOrNil()
}
