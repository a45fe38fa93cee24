package cgrouptree

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/internal/kernfile"
)

// GroupsOf returns the group of a process in the hierarchy of each CPU controller. It rejects a
// process whose threads are in different groups.
func GroupsOf(fs *cgroup.FS, pid int) (map[cgroup.Controller]string, error) {
	proc, err := procfs.NewFS(filepath.Join(fs.Root(), "proc"))
	if err != nil {
		return nil, fmt.Errorf("find the control group of process %d: %w", pid, err)
	}
	threads, err := proc.AllThreads(pid)
	if err != nil {
		return nil, fmt.Errorf("find the control group of process %d: %w", pid, err)
	}
	var all map[cgroup.Controller]string
	for _, thread := range threads {
		groups, err := groupsOf(fs, fmt.Sprintf("%d/task/%d", pid, thread.PID), pid)
		switch {
		case cgroup.IsGone(err) || isExiting(thread): // the thread has ended
		case err != nil:
			return nil, err
		case all == nil:
			all = groups
		case !maps.Equal(all, groups):
			return nil, fmt.Errorf("the threads of process %d are in different control groups: another program manages them", pid)
		}
	}
	if all == nil {
		return nil, fmt.Errorf("find the control group of process %d: %w", pid, unix.ESRCH)
	}
	return all, nil
}

// pfExiting is PF_EXITING of include/linux/sched.h.
const pfExiting = 0x00000004

// isExiting reports whether a thread has ended or is about to. Version 1 says of such threads that
// they are in the root group (proc_cgroup_show in kernel/cgroup/cgroup.c).
func isExiting(thread procfs.Proc) bool {
	stat, err := thread.Stat()
	return cgroup.IsGone(err) || err == nil && stat.Flags&pfExiting != 0
}

// CheckBelow reports why groups for the processes of the root "/" (see [cgroup.FS.Within]) cannot
// be created below it. Version 2 permits that for threaded groups, if no other groups are there;
// isOurs recognises the names of those that may be. The error wraps ErrNoParent.
func CheckBelow(fs *cgroup.FS, isOurs func(name string) bool, controllers ...cgroup.Controller) error {
	for _, h := range hierarchiesOf(fs, controllers) {
		if h.ReadOnly {
			return &cgroup.HierarchyError{Controller: h.controllers[0], Where: h.Mount, Problem: cgroup.ErrReadOnly, Do: "mount it read-write for this process"}
		}
		if err := checkWritableDir(h.Mount); err != nil {
			return fmt.Errorf("%w: %w: run as root", ErrNoParent, err)
		}
		if h.Version == cgroup.V1 {
			continue
		}
		if err := h.checkThreaded(isOurs); err != nil {
			return fmt.Errorf("%w: %s %w", ErrNoParent, h.Mount, err)
		}
	}
	return nil
}

// checkThreaded reports why a group of version 2 cannot get threaded groups below it.
func (h selected) checkThreaded(isOurs func(name string) bool) error {
	has, err := kernfile.Words(filepath.Join(h.Mount, cgroup.ControllersFile))
	if err != nil {
		return err
	}
	for _, c := range h.controllers {
		if !slices.Contains(has, string(c)) {
			return fmt.Errorf("does not have the controller %s: write +%s to %s of the groups above, from the top", c, c, cgroup.SubtreeControl)
		}
	}
	kind, err := kernfile.Words(filepath.Join(h.Mount, cgroup.TypeFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil // the root takes groups of any type
	}
	if err != nil {
		return err
	}
	if kind[0] != "domain" || slices.Contains(kind, "invalid") {
		return errors.New("is threaded: another program manages its threads")
	}
	entries, err := os.ReadDir(h.Mount)
	ours := false
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if !isOurs(e.Name()) {
			return fmt.Errorf("has processes and the group %s: version 2 permits no further group there", e.Name())
		}
		ours = true
	}
	delegated, err2 := kernfile.Words(filepath.Join(h.Mount, cgroup.SubtreeControl))
	if !ours && len(delegated) > 0 {
		return fmt.Errorf("delegates %s: another program manages threads in it", strings.Join(delegated, ", "))
	}
	return errors.Join(err, err2)
}

// MakeThreaded makes a new group of version 2 threaded, unless its parent is the root: only such a
// group can be below a group with processes, which then remain in that group for all controllers
// that do not know threads, such as memory.
func MakeThreaded(fs *cgroup.FS, group string, controllers ...cgroup.Controller) error {
	for _, h := range hierarchiesOf(fs, controllers) {
		dir := filepath.Join(h.Mount, group)
		if !h.isDomain(filepath.Dir(dir), "domain", "threaded") {
			continue
		}
		if err := kernfile.Write(filepath.Join(dir, cgroup.TypeFile), "threaded"); err != nil {
			return fmt.Errorf("make %s threaded: %w", dir, err)
		}
	}
	return nil
}

// isDomain reports whether a group is of version 2, not the root, and of this type.
func (h selected) isDomain(dir string, kind ...string) bool {
	is, err := kernfile.Words(filepath.Join(dir, cgroup.TypeFile))
	return h.Version == cgroup.V2 && err == nil && slices.Equal(is, kind)
}

// StopThreaded undoes for a parent of version 2 what Make changed for threaded groups.
func StopThreaded(fs *cgroup.FS, parent string, controllers ...cgroup.Controller) error {
	for _, h := range hierarchiesOf(fs, controllers) {
		dir := filepath.Join(h.Mount, parent)
		if !h.isDomain(dir, "domain", "threaded") {
			continue
		}
		for _, c := range h.controllers {
			if err := kernfile.Write(filepath.Join(dir, cgroup.SubtreeControl), "-"+string(c)); err != nil && !cgroup.IsGone(err) {
				return fmt.Errorf("stop delegating %s from %s: %w", c, dir, err)
			}
		}
	}
	return nil
}

// MoveUp moves all processes of a group to its parent, including those started meanwhile. A group
// that does not exist has none. An id is written immediately after it was read, because the kernel
// takes processes by number only: another process has it only after all others have been used.
func MoveUp(ctx context.Context, fs *cgroup.FS, group string, controllers ...cgroup.Controller) error {
	for _, h := range hierarchiesOf(fs, controllers) {
		dir, threads, to := filepath.Join(h.Mount, group), cgroup.Tasks, cgroup.Tasks // other threads of a process may be elsewhere
		if h.Version == cgroup.V2 {
			threads, to = cgroup.Threads, cgroup.Procs // a threaded group does not list processes
		}
		for last := 0; ; {
			ids, err := idsIn(dir, threads)
			if err != nil || len(ids) == 0 {
				if err != nil {
					return err
				}
				break
			}
			if ids[0] == last && !sleep.For(ctx, busyRetry) {
				return fmt.Errorf("thread %d cannot be moved out of %s", last, dir)
			}
			last = ids[0]
			if last == 0 {
				return fmt.Errorf("%s has processes outside this PID namespace", dir)
			}
			err = kernfile.Write(filepath.Join(filepath.Dir(dir), string(to)), strconv.Itoa(last))
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("move thread %d out of %s: %w", last, dir, err)
			}
		}
	}
	return nil
}
