package cgroup

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
	"pinfold.dev/pinfold/linux/cgroup/internal/kernfile"
)

// kernel is a slow, obvious model of the kernel. It tries each write on a copy of its groups and
// rejects it if the copy violates a rule of the real kernel.
type kernel struct {
	layout   Layout
	groups   map[string]Settings
	corrupts bool // a write of cpu.max divides the burst by 1000
}

func (k *kernel) write(w Write) error {
	s, ok := k.groups[w.Path]
	if !ok {
		return syscall.ENOENT
	}
	if w.File == CPUMax && k.corrupts {
		s.Burst /= 1000
	}
	if err := k.set(&s, w.File, w.Value); err != nil {
		return err
	}
	old := k.groups[w.Path]
	k.groups[w.Path] = s
	if err := k.broken(); err != nil {
		k.groups[w.Path] = old
		return err
	}
	return nil
}

func (k *kernel) set(s *Settings, f File, value string) error {
	var err error
	v1, v2 := k.layout.CPU == V1, k.layout.CPU == V2
	switch {
	case f == CPUSetCPUs:
		s.CPUs, err = cpuset.Parse(value)
	case f == CPUCFSQuota && v1:
		s.Quota, err = kernfile.Quota(value)
	case f == CPUCFSPeriod && v1:
		s.Period, err = kernfile.Microseconds(value)
	case f == CPUCFSBurst && v1, f == CPUMaxBurst && v2:
		s.Burst, err = kernfile.Microseconds(value)
	case f == CPUMax && v2:
		var max bandwidth.Limits
		max, err = kernfile.CPUMax(value)
		s.Quota, s.Period = max.Quota, max.Period
	case f == CPUIdle:
		s.Idle = value == "1"
		s.Weight = map[bool]map[Version]Weight{true: {V1: 3, V2: 0}, false: {V1: 1024, V2: 100}}[s.Idle][k.layout.CPU]
	case f == CPUShares && v1, f == CPUWeight && v2:
		if s.Idle {
			return syscall.EINVAL
		}
		var n uint64
		n, err = strconv.ParseUint(value, 10, 64)
		s.Weight = Weight(n)
	default:
		return syscall.ENOENT
	}
	return err
}

func (k *kernel) read(p string, f File) string {
	s := k.groups[p]
	switch f {
	case CPUSetCPUs:
		return s.CPUs.String()
	case CPUMax:
		return formatCPUMax(s.Limits)
	case CPUCFSQuota:
		return formatQuota(s.Quota)
	case CPUCFSPeriod:
		return formatMicroseconds(s.Period)
	case CPUMaxBurst, CPUCFSBurst:
		return formatMicroseconds(s.Burst)
	case CPUIdle:
		return formatFlag(s.Idle)
	case CPUWeight, CPUShares:
		return fmt.Sprint(s.Weight)
	}
	return ""
}

// broken returns the kernel's error for the state of all groups.
func (k *kernel) broken() error {
	for p, s := range k.groups {
		if k.layout.CPUSet == V1 && p != "/" {
			if parent, ok := k.groups[path.Dir(p)]; ok && !s.CPUs.IsSubsetOf(parent.CPUs) {
				return fmt.Errorf("CPUs %s of %s are not in %s of its parent", s.CPUs, p, parent.CPUs)
			}
		}
		if s.Quota == bandwidth.Unlimited {
			continue
		}
		if s.Burst > s.Quota || s.Quota < time.Millisecond || s.Period < time.Millisecond || s.Period > time.Second {
			return fmt.Errorf("quota %v, period %v, burst %v of %s: %w", s.Quota, s.Period, s.Burst, p, syscall.EINVAL)
		}
		for q, o := range k.groups { // every limited group above, not only the nearest one
			if k.layout.CPU == V1 && q != p && isBelow(p, q) && o.Quota != bandwidth.Unlimited && kernelRatio(s) > kernelRatio(o) {
				return fmt.Errorf("%v per %v of %s is above %v per %v of %s", s.Quota, s.Period, p, o.Quota, o.Period, q)
			}
		}
	}
	return nil
}

func kernelRatio(s Settings) int64 {
	return (s.Quota.Microseconds() * (1 << 20)) / s.Period.Microseconds()
}

// effective returns the CPUs that the tasks of a group run on.
func (k *kernel) effective(p string) cpuset.Set {
	s, ok := k.groups[p]
	if !ok {
		return cpuset.Range(0, 7)
	}
	above := k.effective(path.Dir(p))
	if k.layout.CPUSet == V1 {
		return s.CPUs
	}
	if mine := s.CPUs.Intersection(above); !mine.IsEmpty() {
		return mine
	}
	return above
}

var errEqualValue = errors.New("the value was there already")

// do carries out a write as Apply does.
func (k *kernel) do(w Write) error {
	equal := same(w.File, w.Value, k.read(w.Path, w.File))
	if equal && w.IfDiffers {
		return nil
	}
	if equal {
		return errEqualValue
	}
	return k.write(w)
}

func (w Write) text() string {
	s := fmt.Sprintf("%s %s %s", w.Path, w.File, strings.ReplaceAll(w.Value, " ", "/"))
	if w.IfDiffers {
		s += " if-differs"
	}
	return s
}
