package control

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
)

// write writes one file, unless the kernel rejects it.
func (k *fakeKernel) write(w cgroup.Write) error {
	s := k.groups[w.Path]
	var err error
	switch w.File {
	case cgroup.CPUSetCPUs:
		s.CPUs, err = cpuset.Parse(w.Value)
	case cgroup.CPUCFSQuota:
		s.Quota, err = microseconds(w.Value)
	case cgroup.CPUCFSPeriod:
		s.Period, err = microseconds(w.Value)
	case cgroup.CPUMax:
		quota, period, _ := strings.Cut(w.Value, " ")
		if s.Quota, err = microseconds(quota); err == nil {
			s.Period, err = microseconds(period)
		}
	case cgroup.CPUCFSBurst, cgroup.CPUMaxBurst:
		s.Burst, err = microseconds(w.Value)
		if s.NoBurst {
			err = errors.New("no such file")
		}
	case cgroup.CPUIdle:
		s.Idle = w.Value == "1"
	case cgroup.CPUShares, cgroup.CPUWeight:
		var n uint64
		n, err = strconv.ParseUint(w.Value, 10, 64)
		s.Weight = cgroup.Weight(n)
	case cgroup.CPUBVT:
		if s.BVT, err = strconv.Atoi(w.Value); err == nil {
			k.inherit(w.Path, s.BVT)
		}
	case cgroup.CPUSetExclusive:
		s.Exclusive, err = cpuset.Parse(w.Value)
	case cgroup.CPUSetPartition:
		s.Partition = cgroup.PartitionState{Kind: cgroup.Partition(w.Value)}
	default:
		err = fmt.Errorf("unknown file %s", w.File)
	}
	if err == nil {
		err = k.rejects(w.Path, s)
	}
	if err != nil {
		return err
	}
	k.groups[w.Path] = s
	k.validate()
	isBandwidth := strings.HasPrefix(string(w.File), "cpu.max") || strings.HasPrefix(string(w.File), "cpu.cfs")
	if k.wrote != nil && isBandwidth {
		k.wrote(w.Path, s)
	}
	return nil
}

func microseconds(text string) (time.Duration, error) {
	if text == "max" || text == "-1" {
		return bandwidth.Unlimited, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return time.Duration(n) * time.Microsecond, err
}

// rejects returns an error if the kernel rejects the settings of a cgroup: tg_set_cfs_bandwidth and
// tg_cfs_schedulable_down in kernel/sched/core.c, cpuset1_validate_change in
// kernel/cgroup/cpuset-v1.c.
func (k *fakeKernel) rejects(group string, s cgroup.Settings) error {
	limited := s.Quota != bandwidth.Unlimited
	switch {
	case s.Period < time.Millisecond || s.Period > time.Second:
		return fmt.Errorf("period %v", s.Period)
	case limited && s.Quota < time.Millisecond:
		return fmt.Errorf("quota %v", s.Quota)
	case limited && s.Burst > s.Quota:
		return fmt.Errorf("burst %v above quota %v", s.Burst, s.Quota)
	}
	if k.v2 {
		return k.rejectsExclusive(group, s)
	}
	if above, ok := k.groups[path.Dir(group)]; ok && !s.CPUs.IsSubsetOf(above.CPUs) {
		return fmt.Errorf("CPUs %s, and the parent has %s: %w", s.CPUs, above.CPUs, syscall.EACCES)
	}
	for _, below := range k.below(group) {
		if of := k.groups[below]; !of.CPUs.IsSubsetOf(s.CPUs) {
			return fmt.Errorf("CPUs %s, and %s has %s: %w", s.CPUs, below, of.CPUs, syscall.EBUSY)
		}
	}
	if !limited {
		return nil
	}
	for above := path.Dir(group); above != "/"; above = path.Dir(above) {
		if of := k.groups[above]; of.Quota > 0 && ratio(s) > ratio(of) {
			return fmt.Errorf("quota %v per %v above the %v per %v of %s", s.Quota, s.Period, of.Quota, of.Period, above)
		}
	}
	for _, below := range k.below(group) {
		if of := k.groups[below]; of.Quota > 0 && ratio(of) > ratio(s) {
			return fmt.Errorf("quota %v per %v below the %v per %v of %s", s.Quota, s.Period, of.Quota, of.Period, below)
		}
	}
	return nil
}

// ratio is to_ratio in kernel/sched/core.c.
func ratio(s cgroup.Settings) int64 { return s.Quota.Microseconds() << 20 / s.Period.Microseconds() }

// inherit passes cpu.bvt_warp_ns on to the groups below, but not its removal.
func (k *fakeKernel) inherit(above string, bvt int) {
	for below, s := range k.groups {
		if bvt != 0 && path.Dir(below) == above {
			s.BVT = bvt
			k.groups[below] = s
		}
	}
}

// foreign writes settings as another program, and reports if the kernel rejects them.
func (k *fakeKernel) foreign(of string, options map[string]string) (string, error) {
	path := k.pathOf(of)
	s, ok := k.groups[path]
	if !ok {
		return "", fmt.Errorf("no such group: %s", path)
	}
	var err error
	if text := options["cpuset"]; text != "" {
		s.CPUs, err = cpuset.Parse(text)
	}
	for name, to := range map[string]*time.Duration{"quota": &s.Quota, "period": &s.Period, "burst": &s.Burst} {
		if text := options[name]; text != "" && err == nil {
			*to, err = time.ParseDuration(text)
		}
	}
	if err != nil {
		return "", err
	}
	if kind := options["partition"]; kind != "" && k.v2 {
		s.Partition = cgroup.PartitionState{Kind: cgroup.Partition(kind)}
	}
	s.Idle = s.Idle || options["idle"] == "1"
	if text := options["bvt"]; text != "" {
		if s.BVT, err = strconv.Atoi(text); err != nil {
			return "", err
		}
	}
	if text, ok := options["exclusive"]; ok && k.v2 {
		s.Exclusive = cpuset.MustParse(text)
	}
	if rejected := k.rejects(path, s); rejected != nil {
		return fmt.Sprintf("the kernel rejects %s: %s\n", of, k.named(rejected.Error())), nil
	}
	k.groups[path] = s
	k.validate()
	return "", nil
}
