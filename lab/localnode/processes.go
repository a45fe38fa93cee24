package localnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/internal/sleep"
)

// undoTimeout bounds Restore, which takes a second or two with a hundred pods on an
// idle machine: the kernel takes its time with namespaces and groups.
const undoTimeout = time.Minute

// containersOf returns the IDs of the node's containers. containerd makes a directory
// for each before its group, and removes it after that.
func containersOf(l layout) ([]string, error) {
	return namesIn(l.path("containerd", "state", "io.containerd.runtime.v2.task", "k8s.io"))
}

// killAll ends the node's processes: those of its containers, and those of its
// programs. It returns when there are none any more.
func killAll(ctx context.Context, l layout, roots, containers []string) error {
	return retry(ctx, func() error {
		pids, err := ownProcesses(l, roots, containers)
		if err != nil {
			return err
		}
		for _, pid := range pids {
			if err := kill(pid, func() bool { return isInContainer(pid, containers) || isOwnProgram(l, pid) }); err != nil {
				return err
			}
		}
		if len(pids) > 0 {
			return fmt.Errorf("processes %v of the node do not end", pids)
		}
		return nil
	})
}

// kill ends a process. Whether it is the right one is asked again when a descriptor
// is held, and a number can belong to no other any more.
func kill(pid int, right func() bool) error {
	process, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("end process %d: %w", pid, os.NewSyscallError("pidfd_open", err))
	}
	defer unix.Close(process)
	if !right() {
		return nil
	}
	if err := unix.PidfdSendSignal(process, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("end process %d: %w", pid, os.NewSyscallError("pidfd_send_signal", err))
	}
	return nil
}

// ownProcesses returns the pids of the node's processes, zombies left out.
func ownProcesses(l layout, roots, containers []string) ([]int, error) {
	var pids []int
	for _, root := range roots {
		groups, err := containerGroups(filepath.Join(root, podsGroup), containers)
		if err != nil {
			return nil, err
		}
		for _, group := range groups {
			members, err := groupProcesses(group)
			if err != nil {
				return nil, err
			}
			pids = append(pids, slices.DeleteFunc(members, func(pid int) bool { return pid == 0 })...)
		}
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil && isOwnProgram(l, pid) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	pids = slices.Compact(pids)
	return slices.DeleteFunc(pids, isZombie), nil
}

// isInContainer tells whether a process is in the group of one of the containers
// (cgroups(7), /proc/PID/cgroup).
func isInContainer(pid int, containers []string) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	return err == nil && slices.ContainsFunc(strings.Split(string(text), "/"), func(element string) bool {
		return slices.Contains(containers, strings.TrimSpace(element))
	})
}

// otherKubelet returns a kubelet on this machine that is not the node's, "" when there is
// none. One that sees other files, as in a container, changes nothing here.
func otherKubelet(m machine, l layout) (string, error) {
	entries, err := os.ReadDir(m.path("/proc"))
	if err != nil {
		return "", fmt.Errorf("list the processes: %w", err)
	}
	files, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return "", fmt.Errorf("ask for this process's files: %w", err)
	}
	for _, entry := range entries {
		proc := filepath.Join(m.path("/proc"), entry.Name())
		program, err := os.Readlink(filepath.Join(proc, "exe"))
		if err != nil || filepath.Base(strings.TrimSuffix(program, " (deleted)")) != kubeletProgram {
			continue
		}
		line, err := os.ReadFile(filepath.Join(proc, "cmdline"))
		if same, _ := os.Readlink(filepath.Join(proc, "ns/mnt")); err == nil && same == files && !mentions(line, l) {
			return "kubelet, process " + entry.Name(), nil
		}
	}
	return "", nil
}

// isOwnProgram tells whether a process runs one of the node's programs and was
// started with a path in the node's directories.
func isOwnProgram(l layout, pid int) bool {
	proc := fmt.Sprintf("/proc/%d/", pid)
	program, err := os.Readlink(proc + "exe")
	if err != nil || !isProgram(program) {
		return false
	}
	line, err := os.ReadFile(proc + "cmdline")
	return err == nil && mentions(line, l)
}

// mentions tells whether an argument is, or ends in "=" and, a path in the node's
// directories.
func mentions(cmdline []byte, l layout) bool {
	for _, argument := range bytes.Split(cmdline, []byte{0}) {
		_, value, found := strings.Cut(string(argument), "=")
		if !found {
			value = string(argument)
		}
		for _, dir := range []string{l.dir, l.run} {
			if value == dir || strings.HasPrefix(value, dir+"/") {
				return true
			}
		}
	}
	return false
}

// isZombie tells whether a process has ended and waits for its parent only.
func isZombie(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if gone(err) {
		return true
	}
	// The name is in parentheses and may contain any character (proc_pid_stat(5)).
	_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
	return strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")
}

// retry calls a function until it succeeds or the context ends.
func retry(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		if !sleep.For(ctx, 20*time.Millisecond) {
			return fmt.Errorf("%w (gave up: %w)", err, context.Cause(ctx))
		}
	}
}
