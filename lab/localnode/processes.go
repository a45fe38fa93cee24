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
)

// undoTimeout bounds Restore, which takes a second or two with a hundred pods on an
// idle machine: the kernel takes its time with namespaces and groups.
const undoTimeout = time.Minute

// killAll ends the node's processes: those in its pods' groups, and those of its
// programs. It returns when there are none any more.
func killAll(ctx context.Context, l layout, roots []string) error {
	return retry(ctx, func() error {
		pids, err := ownProcesses(l, roots)
		if err != nil {
			return err
		}
		for _, pid := range pids {
			if err := kill(pid, func() bool { return isInPod(pid) || isOwnProgram(l, pid) }); err != nil {
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
func ownProcesses(l layout, roots []string) ([]int, error) {
	var pids []int
	for _, root := range roots {
		members, err := groupProcesses(filepath.Join(root, podsGroup))
		if err != nil {
			return nil, err
		}
		pids = append(pids, members...)
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

// isInPod tells whether a process is in a group of the kubelet's (cgroups(7),
// /proc/PID/cgroup).
func isInPod(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	return err == nil && strings.Contains(string(text), "/"+podsGroup+"/")
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
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%w (gave up: %w)", err, context.Cause(ctx))
		}
	}
}
