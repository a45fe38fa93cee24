package cgroup

import (
	"slices"
	"strings"

	"pinfold.dev/pinfold/linux/feature"
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

// Files of version 2 that say what a group has and delegates.
const (
	SubtreeControl  = "cgroup.subtree_control"
	ControllersFile = "cgroup.controllers"
	TypeFile        = "cgroup.type" // of all groups but the root
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

// missing returns the error for a group without the file.
func (f File) missing() error {
	features := map[File]*feature.Feature{
		CPUCFSBurst: feature.Burst, CPUMaxBurst: feature.Burst, CPUIdle: feature.Idle, CPUBVT: feature.GroupIdentity,
		CPUSetExclusive: feature.Partitions, CPUPressure: feature.Pressure,
	}
	e := &feature.UnsupportedError{Feature: features[f], What: "the kernel has no " + string(f)}
	if e.Feature == nil {
		e.Do = "it was built without it, or the root group has none"
	}
	return e
}

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
