package cgroup

import "syscall"

// cause says why the kernel probably refused a write; "" when there is nothing to
// say beyond the errno. Read in kernel/cgroup/cpuset.c, cpuset-v1.c and
// kernel/sched/core.c of Linux 6.18.
func cause(f File, errno syscall.Errno) string {
	switch errno {
	case syscall.EROFS:
		return "the hierarchy is mounted read-only: mount it read-write for this process"
	case syscall.EPERM:
		return "run as root, in the host's user namespace"
	}
	if f == CPUSetCPUs {
		return cpusetCause(errno)
	}
	if errno == syscall.EACCES {
		return "run as root, in the host's user namespace"
	}
	if errno == syscall.EINVAL {
		return cpuCause(f)
	}
	return ""
}

func cpusetCause(errno syscall.Errno) string {
	switch errno {
	case syscall.EACCES:
		return "a CPU is not in the parent's cpuset (widen the parent first), or this process is not root"
	case syscall.EBUSY:
		return "a child group still has a CPU that is not in the list: narrow the children first"
	case syscall.ENOSPC:
		return "the group has tasks, and would have no CPU, or has no memory node"
	case syscall.ERANGE:
		return "the machine does not have that many CPUs"
	case syscall.EINVAL:
		return "a CPU is offline, or exclusive to a sibling group"
	}
	return ""
}

func cpuCause(f File) string {
	switch f {
	case CPUCFSQuota, CPUCFSPeriod:
		return "quota/period is above the parent's or below a child's, the quota is below the burst or 1 ms, or the period is not within 1 ms to 1 s"
	case CPUMax:
		return "the quota is below the burst or 1 ms, or the period is not within 1 ms to 1 s"
	case CPUCFSBurst, CPUMaxBurst:
		return "the burst is above the quota"
	case CPUShares, CPUWeight:
		return "the group is idle, and idle groups have no weight"
	}
	return ""
}
