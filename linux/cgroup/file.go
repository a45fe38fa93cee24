package cgroup

import (
	"slices"
	"strings"
)

// Version is the version of the cgroup interface.
type Version int

// The two versions.
const (
	V1 Version = 1
	V2 Version = 2
)

// Controller is a kernel controller whose files this package reads or writes.
type Controller string

// The controllers. Version 2 has no cpuacct: usage is in its cpu.stat.
const (
	CPU     Controller = "cpu"
	CPUSet  Controller = "cpuset"
	CPUAcct Controller = "cpuacct"
)

// File is the name of a file in the directory of a group.
type File string

// The files of the kernel (kernel/sched/core.c, kernel/cgroup/cpuset.c and cpuset-v1.c of Linux
// 6.18).
const (
	CPUSetCPUs        File = "cpuset.cpus"           // v1 and v2
	CPUSetEffectiveV1 File = "cpuset.effective_cpus" // v1
	CPUSetEffectiveV2 File = "cpuset.cpus.effective" // v2
	CPUSetExclusive   File = "cpuset.cpus.exclusive" // v2
	CPUSetPartition   File = "cpuset.cpus.partition" // v2
	CPUCFSQuota       File = "cpu.cfs_quota_us"      // v1
	CPUCFSPeriod      File = "cpu.cfs_period_us"     // v1
	CPUCFSBurst       File = "cpu.cfs_burst_us"      // v1
	CPUMax            File = "cpu.max"               // v2: quota and period
	CPUMaxBurst       File = "cpu.max.burst"         // v2
	CPUShares         File = "cpu.shares"            // v1
	CPUWeight         File = "cpu.weight"            // v2
	CPUIdle           File = "cpu.idle"              // v1 and v2
	CPUBVT            File = "cpu.bvt_warp_ns"       // v1 and v2, Alibaba Cloud Linux and Anolis OS
	CPUStat           File = "cpu.stat"              // v1 and v2
	CPUPressure       File = "cpu.pressure"          // v2
	CPUAcctUsage      File = "cpuacct.usage"         // v1
	CPUAcctUser       File = "cpuacct.usage_user"    // v1
	CPUAcctSystem     File = "cpuacct.usage_sys"     // v1
	Tasks             File = "tasks"                 // v1: threads
	Threads           File = "cgroup.threads"        // v2
	Procs             File = "cgroup.procs"          // v1 and v2: processes
)

// Controller returns the controller that the file belongs to. Files that every hierarchy has
// (tasks, processes) count as the cpuset controller's, because they are mostly read to find out on
// which CPUs a thread may run.
func (f File) Controller() Controller {
	switch prefix, _, _ := strings.Cut(string(f), "."); prefix {
	case "cpu":
		return CPU
	case "cpuacct":
		return CPUAcct
	}
	return CPUSet
}

// oneLine reports whether the file is a single line, which one read returns completely. A list may
// come in several pieces, none of which fills the buffer.
func (f File) oneLine() bool {
	return !slices.Contains([]File{CPUStat, CPUPressure, Tasks, Threads, Procs}, f)
}

// since returns the first kernel that has the file, or "" if it is as old as the controller.
func (f File) since() string {
	switch f {
	case CPUSetEffectiveV1:
		return "3.17"
	case CPUAcctUser, CPUAcctSystem:
		return "4.7"
	case Threads:
		return "4.14"
	case CPUMax, CPUWeight:
		return "4.15"
	case CPUPressure:
		return "4.20"
	case CPUSetEffectiveV2, CPUSetPartition:
		return "5.0"
	case CPUSetExclusive:
		return RemotePartitionsSince
	case CPUCFSBurst, CPUMaxBurst:
		return "5.14" // f4183717b370 sched/fair: Introduce the burstable CFS controller
	case CPUIdle:
		return "5.15" // 304000390f88 sched: Cgroup SCHED_IDLE support
	}
	return ""
}

// BurstStatisticsSince is the first kernel whose cpu.stat counts bursts (bcb1704a1ed2 sched/fair:
// Add cfs bandwidth burst statistics).
const BurstStatisticsSince = "5.16"

// RemotePartitionsSince is the first kernel in which a group can be a partition whose parent is not
// one (181c8e091aae cgroup/cpuset: Introduce remote partition).
const RemotePartitionsSince = "6.7"

// Layout is the version of the interface that each controller has. They may differ on machines with
// both versions mounted.
type Layout struct {
	CPU, CPUSet Version
}

func (l Layout) effective() File {
	if l.CPUSet == V2 {
		return CPUSetEffectiveV2
	}
	return CPUSetEffectiveV1
}

func (l Layout) burst() File {
	if l.CPU == V2 {
		return CPUMaxBurst
	}
	return CPUCFSBurst
}

func (l Layout) weight() File {
	if l.CPU == V2 {
		return CPUWeight
	}
	return CPUShares
}
