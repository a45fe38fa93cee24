package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/internal/sleep"
)

// ProcessesBelow lists the processes of a group and of those below it, in the
// hierarchies of the controllers, ascending. There are none in a group that does not
// exist. One outside of this process's PID namespace is left out.
func (fs *FS) ProcessesBelow(group string, of ...Controller) ([]int, error) {
	var all []int
	for _, h := range fs.separate(of) {
		dirs, err := DirsBelow(filepath.Join(h.Mount, group))
		if err != nil {
			return nil, fmt.Errorf("list processes: %w", err)
		}
		for _, dir := range dirs {
			ids, err := ProcessesIn(dir)
			if err != nil {
				return nil, err
			}
			all = append(all, ids...)
		}
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(pid int) bool { return pid == 0 }), nil
}

// ProcessesIn lists the processes of the group whose directory is given, without those of groups
// below it. There are none if the group does not exist. A process outside of this process's PID
// namespace is listed as 0.
func ProcessesIn(dir string) ([]int, error) {
	name := filepath.Join(dir, string(Procs))
	text, err := os.ReadFile(name)
	if isGone(err) {
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

func isGone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV)
}

// Kill ends all processes of a group and its descendants with SIGKILL, including those started
// meanwhile, and returns when none is left. It gives up when ctx ends, because a process in an
// uninterruptible system call continues to exist.
func (fs *FS) Kill(ctx context.Context, group string, of ...Controller) error {
	for {
		for _, h := range fs.separate(of) {
			// A kernel before 5.14 has no such file; the loop below is for all kernels.
			_ = writeFile(filepath.Join(h.Mount, group, killFile), "1")
		}
		pids, err := fs.ProcessesBelow(group, of...)
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
