package localnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
)

// containersOf returns the IDs of the node's containers. containerd creates a directory for each
// before its cgroup, and removes it afterwards.
func containersOf(l layout) ([]string, error) {
	return namesIn(l.path("containerd", "state", "io.containerd.runtime.v2.task", "k8s.io"))
}

// killAll kills the processes of the node's containers and programs, and waits for their end.
func killAll(ctx context.Context, l layout, roots, containers []string) error {
	return sleep.Until(ctx, undoPause, func() (string, error) {
		pids, err := ownProcesses(l, roots, containers)
		for _, pid := range pids {
			err = errors.Join(err, kill(pid, func() bool { return isInContainer(pid, containers) || isOwnProgram(l, pid) }))
		}
		if err == nil && len(pids) > 0 {
			err = fmt.Errorf("processes %v of the node do not end", pids)
		}
		return text(err), nil
	})
}

// undoPause is the time between two tries of undoing something.
const undoPause = 20 * time.Millisecond

// text returns the text of an error that a later try may not have.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// kill kills a process if right returns true. It calls right while it holds a handle of the
// process, so that the pid cannot be reused in between.
func kill(pid int, right func() bool) error {
	process, err := os.FindProcess(pid)
	if err != nil {
		return fmt.Errorf("find process %d: %w", pid, err)
	}
	defer func() { _ = process.Release() }() // never fails
	if !right() {
		return nil
	}
	if err := process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	return nil
}

// ownProcesses returns the pids of the node's processes except zombies.
func ownProcesses(l layout, roots, containers []string) ([]int, error) {
	var pids []int
	for _, root := range roots {
		for _, n := range namings() {
			members, err := n.processes(root, containers)
			if err != nil {
				return nil, err
			}
			pids = append(pids, members...)
		}
	}
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	for _, process := range all {
		if isOwnProgram(l, process.PID) {
			pids = append(pids, process.PID)
		}
	}
	slices.Sort(pids)
	// Process 0 belongs to another PID namespace.
	return slices.DeleteFunc(slices.Compact(pids), func(pid int) bool { return pid == 0 || isZombie(pid) }), nil
}

// processes returns the pids of the processes in the containers, and in groups below theirs.
func (n naming) processes(root string, containers []string) (pids []int, err error) {
	groups, err := n.containerGroups(root, containers)
	if err != nil {
		return nil, err
	}
	for _, group := range groups {
		nested, err := cgrouptree.DirsBelow(group)
		if err != nil {
			return nil, fmt.Errorf("list cgroups: %w", err)
		}
		for _, dir := range nested {
			members, err := cgrouptree.ProcessesIn(dir)
			if err != nil {
				return nil, err
			}
			pids = append(pids, members...)
		}
	}
	return pids, nil
}

// isInContainer reports whether a process is in the cgroup of one of the containers (cgroups(7),
// /proc/PID/cgroup).
func isInContainer(pid int, containers []string) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	return err == nil && slices.ContainsFunc(strings.Split(string(text), "/"), func(element string) bool {
		id := strings.TrimSuffix(strings.TrimSpace(element), ".scope") // RUNTIME-ID.scope or ID
		return slices.Contains(containers, id[strings.LastIndexByte(id, '-')+1:])
	})
}

// otherKubelet returns a kubelet on this machine that is not the node's, "" if there is none. It
// ignores kubelets in another mount namespace, as in a container, because they change nothing here.
func otherKubelet(m machine, l layout) (string, error) {
	proc, err := procfs.NewFS(m.path("/proc"))
	if err != nil {
		return "", fmt.Errorf("list processes: %w", err)
	}
	all, err := proc.AllProcs()
	if err != nil {
		return "", fmt.Errorf("list processes: %w", err)
	}
	namespace, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return "", fmt.Errorf("find the mount namespace of this process: %w", err)
	}
	for _, process := range all {
		name, arguments := program(process)
		if name != kubeletProgram || mentions(arguments, l) {
			continue
		}
		if same, err := os.Readlink(m.path(fmt.Sprintf("/proc/%d/ns/mnt", process.PID))); err == nil && same == namespace {
			return fmt.Sprint("kubelet, process ", process.PID), nil
		}
	}
	return "", nil
}

// isOwnProgram reports whether a process runs one of the node's long-lived programs and was started
// with a path in the node's directories.
func isOwnProgram(l layout, pid int) bool {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return false
	}
	name, arguments := program(process)
	return slices.Contains([]string{kubeletProgram, containerdProgram, shimProgram, runcProgram, Agent}, name) && mentions(arguments, l)
}

// program returns the name of a process's program, and its arguments. They are empty if it has ended.
func program(process procfs.Proc) (name string, arguments []string) {
	exe, err1 := process.Executable()
	arguments, err2 := process.CmdLine()
	if err1 != nil || err2 != nil {
		return "", nil
	}
	return filepath.Base(strings.TrimSuffix(exe, " (deleted)")), arguments
}

// mentions reports whether an argument of a command line is a path in the node's directories, or a
// flag with such a path after "=".
func mentions(arguments []string, l layout) bool {
	for _, argument := range arguments {
		_, value, found := strings.Cut(argument, "=")
		if !found {
			value = argument
		}
		for _, dir := range []string{l.dir, l.run} {
			if value == dir || strings.HasPrefix(value, dir+"/") {
				return true
			}
		}
	}
	return false
}

// isZombie reports whether a process has ended, even if its parent has not waited for it yet.
func isZombie(pid int) bool {
	process, err := procfs.NewProc(pid)
	if err != nil {
		return true
	}
	stat, err := process.Stat()
	return err != nil || stat.State == "Z" || stat.State == "X"
}
