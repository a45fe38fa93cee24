package cgroup

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Stat is what the kernel counted of a group since it was made.
type Stat struct {
	// Periods counts those periods in which the bandwidth timer ran, not all that
	// went by: Throttled/Periods is not the share of wall time.
	Periods       uint64
	Throttled     uint64 // periods in which the group was throttled
	ThrottledTime time.Duration
	Bursts        uint64        // periods in which more than the quota was used
	BurstTime     time.Duration // CPU time used beyond quota
	// NoBursts says that the kernel does not count bursts: it is older than
	// BurstStatisticsSince.
	NoBursts bool
	Usage    time.Duration // CPU time used
}

// Stat reads a group's cpu.stat and, on version 1, cpuacct.usage.
func (fs *FS) Stat(group string) (Stat, error) {
	s, err := readAs(fs, group, CPUStat, func(text string) (Stat, error) { return ParseStat(fs.layout.CPU, text) })
	if err != nil || fs.layout.CPU == V2 {
		return s, err
	}
	s.Usage, err = readAs(fs, group, CPUAcctUsage, ParseUsage)
	return s, err
}

// ParseUsage reads cpuacct.usage: nanoseconds.
func ParseUsage(text string) (time.Duration, error) {
	return parseTime(strings.TrimSpace(text), time.Nanosecond)
}

// ParseStat reads cpu.stat: lines of a name and a number. Version 1 has times in
// nanoseconds and no usage, version 2 has microseconds. Names that are not known
// are passed over; of a name that is not there the figure is 0.
func ParseStat(v Version, text string) (Stat, error) {
	s := Stat{NoBursts: true}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			return Stat{}, fmt.Errorf("%s: %q is not a name and a number", CPUStat, line)
		}
		if err := s.set(v, name, value); err != nil {
			return Stat{}, fmt.Errorf("%s: %s: %w", CPUStat, name, err)
		}
	}
	return s, nil
}

func (s *Stat) set(v Version, name, value string) (err error) {
	if name == "nr_bursts" {
		s.NoBursts = false
	}
	switch name {
	case "nr_periods":
		s.Periods, err = strconv.ParseUint(value, 10, 64)
	case "nr_throttled":
		s.Throttled, err = strconv.ParseUint(value, 10, 64)
	case "nr_bursts":
		s.Bursts, err = strconv.ParseUint(value, 10, 64)
	}
	if err != nil {
		return err
	}
	if v == V1 {
		switch name {
		case "throttled_time":
			s.ThrottledTime, err = parseTime(value, time.Nanosecond)
		case "burst_time":
			s.BurstTime, err = parseTime(value, time.Nanosecond)
		}
		return err
	}
	switch name {
	case "throttled_usec":
		s.ThrottledTime, err = parseTime(value, time.Microsecond)
	case "burst_usec":
		s.BurstTime, err = parseTime(value, time.Microsecond)
	case "usage_usec":
		s.Usage, err = parseTime(value, time.Microsecond)
	}
	return err
}

func parseTime(s string, unit time.Duration) (time.Duration, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, err
	}
	if n > uint64(math.MaxInt64/unit) {
		return 0, fmt.Errorf("%s is too large", s)
	}
	return time.Duration(n) * unit, nil
}
