package confine

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/linux/feature"
	"pinfold.dev/pinfold/linux/sysfs"
)

// ProcessError reports that a process of Spec.PIDs cannot be placed.
type ProcessError struct{ Err error }

func (e *ProcessError) Error() string { return e.Err.Error() }
func (e *ProcessError) Unwrap() error { return e.Err }

// process is a process that runs already. As long as it has not ended, no other process has its id.
type process struct {
	pid, fd int // fd is a pidfd
	handle  *os.File
}

// openProcess opens a process that may be placed.
func openProcess(pid int) (*process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return nil, fmt.Errorf("there is no process %d", pid)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
		return nil, fmt.Errorf("%d is a thread: give its process, which is Tgid in /proc/%d/status", pid, pid)
	case errors.Is(err, unix.ENOSYS):
		return nil, fmt.Errorf("the kernel has no pidfd_open: use Linux 5.3 or newer")
	case err == nil:
		err = unix.SetNonblock(fd, true) // so that awaitEnd can be interrupted
	}
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	p := &process{pid, fd, os.NewFile(uintptr(fd), "pidfd")}
	s, err := readStat(pid)
	switch {
	case err == nil && (s.State == "Z" || s.State == "X"):
		err = fmt.Errorf("process %d has ended, and its parent has not waited for it (zombie)", pid)
	case err != nil || p.hasEnded():
		err = fmt.Errorf("there is no process %d", pid)
	case pid == 1:
		err = errors.New("process 1 starts and ends all others: it cannot be placed")
	case isKernel(s):
		err = fmt.Errorf("process %d is a thread of the kernel: it cannot be placed", pid)
	}
	if err != nil {
		p.handle.Close()
		return nil, err
	}
	return p, nil
}

// hasEnded reports whether the process has ended, so that another one may have its id.
func (p *process) hasEnded() bool { return isReadable(uintptr(p.fd)) }

func isReadable(fd uintptr) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return n == 1 && err == nil
}

// awaitEnd returns when the process has ended or its handle was closed.
func (p *process) awaitEnd() {
	if c, err := p.handle.SyscallConn(); err == nil {
		_ = c.Read(isReadable) // fails when the handle is closed
	}
}

// pfKthread is PF_KTHREAD of include/linux/sched.h.
const pfKthread = 0x00200000

func isKernel(s procfs.ProcStat) bool { return s.Flags&pfKthread != 0 }

func readStat(pid int) (s procfs.ProcStat, err error) {
	all, err := procfs.NewDefaultFS()
	if err != nil {
		return s, err
	}
	p, err := all.Proc(pid)
	if err != nil {
		return s, err
	}
	return p.Stat()
}

// withDescendants returns processes and all below them, parents before children.
func withDescendants(pids []int) []int {
	children := map[int][]int{}
	names, _ := filepath.Glob("/proc/[0-9]*") // fails only for a bad pattern
	for _, name := range names {
		pid, _ := strconv.Atoi(path.Base(name))
		if s, err := readStat(pid); err == nil { // others end meanwhile
			children[s.PPID] = append(children[s.PPID], pid)
		}
	}
	all := slices.Clone(pids)
	for i := 0; i < len(all); i++ {
		for _, child := range children[all[i]] {
			if !slices.Contains(all, child) {
				all = append(all, child)
			}
		}
	}
	return all
}

// openAll opens the processes to be placed and returns their groups, which must be the same.
func openAll(machine *cgroup.FS, pids []int, of []cgroup.Controller) (all []*process, groups map[cgroup.Controller]string, err error) {
	above := map[int]bool{} // this process, and those that started it
	for pid := os.Getpid(); pid > 1; {
		above[pid] = true
		s, err := readStat(pid)
		if err != nil {
			return nil, nil, err
		}
		pid = s.PPID
	}
	for _, pid := range pids {
		p, err := openProcess(pid)
		if err != nil {
			return all, nil, err
		}
		all = append(all, p)
		if above[pid] {
			return all, nil, fmt.Errorf("process %d is pinfold, or has started it: start pinfold from elsewhere", pid)
		}
		in, err := freeGroups(machine, pid)
		switch {
		case err != nil:
			return all, nil, err
		case groups != nil && slices.ContainsFunc(of, func(c cgroup.Controller) bool { return in[c] != groups[c] }):
			return all, nil, fmt.Errorf("processes %d and %d are in different control groups: give each a 'pinfold run' of its own", pids[0], pid)
		}
		groups = in
	}
	return all, groups, nil
}

// freeGroups returns the groups of a process, unless others manage them.
func freeGroups(machine *cgroup.FS, pid int) (map[cgroup.Controller]string, error) {
	groups, err := cgrouptree.GroupsOf(machine, pid)
	for _, group := range groups {
		for name := range strings.SplitSeq(group, "/") {
			if strings.HasPrefix(name, "kubepods") {
				return nil, fmt.Errorf("process %d belongs to a pod, whose settings the kubelet and the agent write: use the pod's limit, and annotations such as cpuset-scheduler", pid)
			}
		}
		if isPlaced(path.Base(group)) {
			return nil, fmt.Errorf("another 'pinfold run --pid' has placed process %d, in %s: end that first", pid, group)
		}
	}
	return groups, err
}

// checkAffinity rejects a process whose affinity is lost when it enters a cpuset. Linux keeps it
// since 6.2 (8f9ea86fdf99 sched: Always preserve the user requested cpumask).
func checkAffinity(pid int, in cpuset.Set) error {
	var major, minor int
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err
	}
	if n, _ := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor); n == 2 && (major > 6 || major == 6 && minor >= 2) {
		return nil
	}
	threads, err := sysfs.AffinityOfThreads(pid)
	if err == nil && slices.ContainsFunc(threads, func(cpus cpuset.Set) bool { return cpus != in }) {
		err = &feature.UnsupportedError{What: fmt.Sprintf("process %d has an affinity (taskset), which this kernel would lose", pid),
			Do: "use Linux 6.2 or newer, or leave --cpus and --cpuset out"}
	}
	return err
}
