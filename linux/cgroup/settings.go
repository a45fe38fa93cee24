package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup/internal/kernfile"
	"pinfold.dev/pinfold/linux/feature"
)

// Settings are the CPU settings of one group as the kernel reports them.
type Settings struct {
	// CPUs is the group's own list. If it is empty, the group has none on version 1, and all CPUs
	// of its parent on version 2.
	CPUs cpuset.Set
	// Effective are the CPUs that the group's threads may run on.
	Effective cpuset.Set
	bandwidth.Limits
	Weight Weight
	Idle   bool
	// Partition is whether the group is a partition. Exclusive are the CPUs that it, or a group
	// below, may have as a partition.
	Partition PartitionState
	Exclusive cpuset.Set
	// BVT is the identity of the group on kernels with Group Identity: 2 and 1 are before, -1 and -2
	// behind others. New groups below have it, too.
	BVT int
	// NoBurst, NoIdle, NoPartition and NoBVT are true if the kernel does not have the files.
	NoBurst, NoIdle, NoPartition, NoBVT bool
}

// Weight is a group's share of the CPU among its siblings, in the unit of the hierarchy's file:
// cpu.shares on version 1 (2 to 262144, default 1024), cpu.weight on version 2 (1 to 10000, default
// 100). An idle group reads 3 on version 1, 0 or (Linux 7.2) 1 on version 2, and its weight cannot
// be written.
type Weight uint64

// Wanted are settings that a group should have. Those that are nil remain unchanged.
type Wanted struct {
	CPUs   *cpuset.Set
	Quota  *time.Duration
	Period *time.Duration
	Burst  *time.Duration
	Weight *Weight
	Idle   *bool
	BVT    *int
	// Exclusive and Partition make the group a partition: see the package comment.
	Exclusive *cpuset.Set
	Partition *Partition
	// Nested extends a change of CPUs to the groups below, because a container may run containers.
	Nested bool
}

func (w Wanted) bandwidth() bool {
	return w.Quota != nil || w.Period != nil || w.Burst != nil
}

// Read reads all settings of a group. NoBurst, NoIdle and NoBVT are set on kernels without these
// files. The error is ErrGone if the group does not exist.
func (fs *FS) Read(group string) (Settings, error) {
	return fs.ReadParts(group, Parts{CPUs: true, Effective: true, Bandwidth: true, Weight: true, Idle: true, BVT: true, Partition: true})
}

// Effective reads the CPUs that the group's threads may run on: cpuset.effective_cpus or
// cpuset.cpus.effective.
func (fs *FS) Effective(group string) (cpuset.Set, error) {
	return ReadAs(fs, group, fs.layout.effective(), cpuset.Parse)
}

// Parts selects settings to read. Bandwidth is quota, period and burst; Partition is Partition and
// Exclusive.
type Parts struct{ CPUs, Effective, Bandwidth, Weight, Idle, BVT, Partition bool }

// ReadParts reads the selected settings only, for callers that read many groups often.
func (fs *FS) ReadParts(group string, of Parts) (s Settings, err error) {
	if of.CPUs {
		err = readTo(&s.CPUs, fs, group, CPUSetCPUs, cpuset.Parse)
	}
	if of.Effective && err == nil {
		s.Effective, err = fs.Effective(group)
	}
	if of.Partition && err == nil {
		err = readPartition(fs, group, &s)
	}
	if of.Bandwidth && err == nil {
		err = readBandwidth(fs, group, &s)
	}
	if of.Weight && err == nil {
		err = readTo(&s.Weight, fs, group, fs.layout.weight(), parseWeight)
	}
	if of.Idle && err == nil {
		s.NoIdle, err = lacks(readTo(&s.Idle, fs, group, CPUIdle, parseFlag))
	}
	if of.BVT && err == nil {
		s.NoBVT, err = lacks(readTo(&s.BVT, fs, group, CPUBVT, parseBVT))
	}
	return s, err
}

func readBandwidth(fs *FS, group string, s *Settings) (err error) {
	if fs.layout.CPU == V2 {
		err = readTo(&s.Limits, fs, group, CPUMax, kernfile.CPUMax)
		s.Burst = 0 // a third field of cpu.max cannot be written as a burst
	} else if err = readTo(&s.Quota, fs, group, CPUCFSQuota, kernfile.Quota); err == nil {
		err = readTo(&s.Period, fs, group, CPUCFSPeriod, kernfile.Microseconds)
	}
	if err == nil {
		s.NoBurst, err = lacks(readTo(&s.Burst, fs, group, fs.layout.burst(), kernfile.Microseconds))
	}
	return err
}

// burstSwitch turns CPU Burst on and off for all groups, on Alibaba Cloud Linux.
const burstSwitch = "proc/sys/kernel/sched_cfs_bw_burst_enabled"

// CheckBurst returns an UnsupportedError if CPU Burst is switched off: groups have the file then, and
// it has no effect.
func (fs *FS) CheckBurst() error {
	text, err := os.ReadFile(filepath.Join(fs.root, burstSwitch))
	if err == nil && strings.TrimSpace(string(text)) != "1" {
		return &feature.UnsupportedError{Feature: feature.Burst, What: "CPU Burst is switched off", Do: "write 1 to /" + burstSwitch}
	}
	return nil // without the switch it is on
}

// readTo reads a setting.
func readTo[T any](setting *T, fs *FS, group string, f File, parse func(string) (T, error)) (err error) {
	*setting, err = ReadAs(fs, group, f, parse)
	return err
}

// lacks converts the error of a kernel without the file.
func lacks(err error) (bool, error) {
	if errors.Is(err, errors.ErrUnsupported) {
		return true, nil
	}
	return false, err
}
