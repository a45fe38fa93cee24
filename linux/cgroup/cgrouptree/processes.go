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

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/internal/kernfile"
)

// Threads lists the threads of a group, without those of groups below it: tasks on version 1,
// cgroup.threads on version 2. A thread outside this process's PID namespace is listed as 0.
func Threads(fs *cgroup.FS, group string) ([]int, error) {
	if fs.Layout().CPUSet == cgroup.V2 {
		return cgroup.ReadAs(fs, group, cgroup.Threads, parseIDs)
	}
	return cgroup.ReadAs(fs, group, cgroup.Tasks, parseIDs)
}

func parseIDs(text string) ([]int, error) {
	var ids []int
	for line := range strings.FieldsSeq(text) {
		id, err := strconv.ParseUint(line, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("%q is not the number of a thread or process", line)
		}
		ids = append(ids, int(id))
	}
	return ids, nil
}

// ProcessesBelow lists the processes of a group and its descendants in the hierarchies of the
// controllers, in ascending order. A group that does not exist has none. Processes outside this
// process's PID namespace are omitted.
func ProcessesBelow(fs *cgroup.FS, group string, controllers ...cgroup.Controller) ([]int, error) {
	all := map[int]bool{}
	for _, h := range hierarchiesOf(fs, controllers) {
		dirs, err := DirsBelow(filepath.Join(h.Mount, group))
		if err != nil {
			return nil, fmt.Errorf("list processes: %w", err)
		}
		for _, dir := range dirs {
			ids, err := ProcessesIn(dir)
			if err != nil {
				return nil, err
			}
			for _, id := range ids {
				all[id] = true
			}
		}
	}
	delete(all, 0)
	return slices.Sorted(maps.Keys(all)), nil
}

// ProcessesIn lists the processes of the group with the given directory, without those of its
// descendants. A group that does not exist has none. A process outside this process's PID namespace
// is listed as 0.
func ProcessesIn(dir string) ([]int, error) { return idsIn(dir, cgroup.Procs) }

// ThreadsIn lists the threads of the group with the given directory in the cpu controller's
// hierarchy, otherwise like ProcessesIn.
func ThreadsIn(fs *cgroup.FS, dir string) ([]int, error) {
	if fs.Layout().CPU == cgroup.V2 {
		return idsIn(dir, cgroup.Threads)
	}
	return idsIn(dir, cgroup.Tasks)
}

func idsIn(dir string, file cgroup.File) ([]int, error) {
	name := filepath.Join(dir, string(file))
	text, err := os.ReadFile(name)
	if cgroup.IsGone(err) || file == cgroup.Procs && errors.Is(err, unix.EOPNOTSUPP) { // a threaded group: its processes are above
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	ids, err := parseIDs(string(text))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return ids, nil
}

// Kill ends all processes of a group and its descendants with SIGKILL, including those started
// meanwhile, and returns when none is left. It gives up when ctx ends, because a process in an
// uninterruptible system call continues to exist.
func Kill(ctx context.Context, fs *cgroup.FS, group string, controllers ...cgroup.Controller) error {
	for {
		for _, h := range hierarchiesOf(fs, controllers) {
			// Kernels before 5.14 do not have this file. The loop below works on all kernels.
			_ = kernfile.Write(filepath.Join(h.Mount, group, "cgroup.kill"), "1")
		}
		pids, err := ProcessesBelow(fs, group, controllers...)
		if err != nil || len(pids) == 0 {
			return err
		}
		var refused error
		for _, pid := range pids {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				refused = fmt.Errorf("kill process %d: %w", pid, err)
			}
		}
		if !sleep.For(ctx, busyRetry) {
			return errors.Join(fmt.Errorf("processes %v of %s do not end", pids, group), refused)
		}
	}
}
