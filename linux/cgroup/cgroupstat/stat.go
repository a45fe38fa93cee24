package cgroupstat

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/internal/kernfile"
)

// Stat are a group's statistics since it was created.
type Stat struct {
	// Periods counts the periods in which the bandwidth timer ran, not all periods of wall time. So
	// Throttled/Periods is not the share of wall time.
	Periods       uint64
	Throttled     uint64 // periods in which the group was throttled
	ThrottledTime time.Duration
	Bursts        uint64        // periods in which the group used more than its quota
	BurstTime     time.Duration // CPU time used beyond the quota
	// NoBursts is true if the kernel lacks [feature.BurstStatistics]: it counts periods, but no
	// bursts.
	NoBursts bool
	Usage    time.Duration // CPU time used
	// Waited is the total of [Pressure]. It is read only after [Reader.ReadWaits].
	Waited time.Duration
}

// Read reads a group's cpu.stat and, on version 1, cpuacct.usage. A kernel without limits
// (CONFIG_CFS_BANDWIDTH) has no cpu.stat on version 1: then there is only usage.
func Read(fs *cgroup.FS, group string) (Stat, error) {
	s, err := cgroup.ReadAs(fs, group, cgroup.CPUStat, func(text string) (Stat, error) { return parseStat(fs.Layout().CPU, text) })
	if fs.Layout().CPU == cgroup.V1 && errors.Is(err, errors.ErrUnsupported) {
		s, err = Stat{}, nil
	}
	if err != nil || fs.Layout().CPU == cgroup.V2 {
		return s, err
	}
	s.Usage, err = cgroup.ReadAs(fs, group, cgroup.CPUAcctUsage, nanoseconds)
	return s, err
}

// UserSystem reads the CPU time that a group has used in user mode and in the kernel since it was
// created.
func UserSystem(fs *cgroup.FS, group string) (user, system time.Duration, err error) {
	if fs.Layout().CPU == cgroup.V1 {
		if user, err = cgroup.ReadAs(fs, group, cgroup.CPUAcctUser, nanoseconds); err != nil {
			return 0, 0, err
		}
		system, err = cgroup.ReadAs(fs, group, cgroup.CPUAcctSystem, nanoseconds)
		return user, system, err
	}
	times, err := cgroup.ReadAs(fs, group, cgroup.CPUStat, parseUserSystem)
	return times[0], times[1], err
}

// parseUserSystem parses user_usec and system_usec of version 2's cpu.stat.
func parseUserSystem(text string) (times [2]time.Duration, err error) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case "user_usec":
			times[0], err = kernfile.Time(value, time.Microsecond)
		case "system_usec":
			times[1], err = kernfile.Time(value, time.Microsecond)
		}
		if err != nil {
			return times, fmt.Errorf("%s: %s: %w", cgroup.CPUStat, name, err)
		}
	}
	return times, nil
}

// nanoseconds parses cpuacct.usage, cpuacct.usage_user and cpuacct.usage_sys.
func nanoseconds(text string) (time.Duration, error) {
	return kernfile.Time(text, time.Nanosecond)
}

// parseStat parses cpu.stat: lines of a name and a number. Version 1 has times in nanoseconds and
// no usage, version 2 has microseconds. Other lines are ignored, because vendors add their own.
// Fields without a name are 0: a group without the cpu controller has only usage.
func parseStat(v cgroup.Version, text string) (Stat, error) {
	var s Stat
	if err := s.parse(v, []byte(text)); err != nil {
		return Stat{}, err
	}
	return s, nil
}

// parse is parseStat without allocation, except for errors.
func (s *Stat) parse(v cgroup.Version, text []byte) error {
	*s = Stat{}
	periods, bursts := false, false
	for len(text) > 0 {
		line := text
		if end := bytes.IndexByte(text, '\n'); end >= 0 {
			line, text = text[:end], text[end+1:]
		} else {
			text = nil
		}
		name, rest := kernfile.CutWord(line)
		value, _ := kernfile.CutWord(rest)
		periods = periods || string(name) == "nr_periods"
		bursts = bursts || string(name) == "nr_bursts" || string(name) == "nr_burst"
		if err := s.set(v, name, value); err != nil {
			return fmt.Errorf("%s: %s: %w", cgroup.CPUStat, string(name), err)
		}
	}
	s.NoBursts = periods && !bursts
	return nil
}

// set sets the field of a name. The names of times differ between the versions.
func (s *Stat) set(v cgroup.Version, name, value []byte) (err error) {
	switch string(name) {
	case "nr_periods":
		s.Periods, err = parseCount(value)
		return err
	case "nr_throttled":
		s.Throttled, err = parseCount(value)
		return err
	case "nr_bursts", "nr_burst": // the latter is of Alibaba Cloud Linux, which had bursts first
		s.Bursts, err = parseCount(value)
		return err
	}
	v1, unit := v == cgroup.V1, time.Microsecond
	if v1 {
		unit = time.Nanosecond
	}
	var field *time.Duration
	switch {
	case v1 && string(name) == "throttled_time", !v1 && string(name) == "throttled_usec":
		field = &s.ThrottledTime
	case v1 && string(name) == "burst_time", !v1 && string(name) == "burst_usec":
		field = &s.BurstTime
	case !v1 && string(name) == "usage_usec":
		field = &s.Usage
	}
	if field != nil {
		*field, err = parseTotal(value, unit)
	}
	return err
}

// parseCount parses nr_periods, nr_throttled and nr_bursts. The kernel prints these as signed
// numbers of 32 bits (struct cfs_bandwidth of Linux 6.18), which become negative after 2^31
// periods: 25 days of 1 ms.
func parseCount(s []byte) (uint64, error) {
	if len(s) < 2 || s[0] != '-' {
		return kernfile.Number(s)
	}
	n, err := kernfile.Number(s[1:])
	if err != nil || n > 1<<31 {
		return 0, fmt.Errorf("%q is not a count", string(s))
	}
	return uint64(uint32(-n)), nil
}

// parseTotal is [kernfile.Time] for a total that ends at the largest duration. Totals of throttled
// time are off by centuries on kernels that have once computed a negative time.
func parseTotal(s []byte, unit time.Duration) (time.Duration, error) {
	n, err := kernfile.Number(s)
	if err == nil && n > uint64(math.MaxInt64/unit) {
		return math.MaxInt64, nil
	}
	return time.Duration(n) * unit, err
}
