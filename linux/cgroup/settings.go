package cgroup

import (
	"errors"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup/internal/kernfile"
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
	s, err := fs.ReadParts(group, Parts{CPUs: true, Effective: true, Bandwidth: true, Weight: true, Idle: true, BVT: true, Partition: true})
	if err != nil {
		return Settings{}, err
	}
	return s, nil
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
		if s.CPUs, err = ReadAs(fs, group, CPUSetCPUs, cpuset.Parse); err != nil {
			return s, err
		}
	}
	if of.Effective {
		if s.Effective, err = fs.Effective(group); err != nil {
			return s, err
		}
	}
	if of.Partition {
		if err = readPartition(fs, group, &s); err != nil {
			return s, err
		}
	}
	if of.Bandwidth {
		if err = readBandwidth(fs, group, &s); err != nil {
			return s, err
		}
	}
	if of.Weight {
		if s.Weight, err = ReadAs(fs, group, fs.layout.weight(), parseWeight); err != nil {
			return s, err
		}
	}
	if of.Idle {
		if s.Idle, err = ReadAs(fs, group, CPUIdle, parseFlag); isUnsupported(err) {
			s.NoIdle, err = true, nil
		}
	}
	if of.BVT && err == nil {
		if s.BVT, err = ReadAs(fs, group, CPUBVT, parseBVT); isUnsupported(err) {
			s.NoBVT, err = true, nil
		}
	}
	return s, err
}

func readBandwidth(fs *FS, group string, s *Settings) (err error) {
	if fs.layout.CPU == V2 {
		if s.Limits, err = ReadAs(fs, group, CPUMax, kernfile.CPUMax); err != nil {
			return err
		}
		s.Burst = 0 // a third field of cpu.max cannot be written as a burst
	} else {
		if s.Quota, err = ReadAs(fs, group, CPUCFSQuota, kernfile.Quota); err != nil {
			return err
		}
		if s.Period, err = ReadAs(fs, group, CPUCFSPeriod, kernfile.Microseconds); err != nil {
			return err
		}
	}
	if s.Burst, err = ReadAs(fs, group, fs.layout.burst(), kernfile.Microseconds); isUnsupported(err) {
		s.NoBurst, err = true, nil
	}
	return err
}

func isUnsupported(err error) bool { return errors.Is(err, errors.ErrUnsupported) }
