package cgroup

import (
	"bytes"
	"fmt"
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
	var s Stat
	if err := s.parse(v, []byte(text)); err != nil {
		return Stat{}, err
	}
	return s, nil
}

// parse is ParseStat without allocation, but for errors.
func (s *Stat) parse(v Version, text []byte) error {
	*s = Stat{NoBursts: true}
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte("\n"))
		name, value, ok := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		if !ok {
			return fmt.Errorf("%s: %q is not a name and a number", CPUStat, string(line))
		}
		if err := s.set(v, name, value); err != nil {
			return fmt.Errorf("%s: %s: %w", CPUStat, string(name), err)
		}
	}
	return nil
}

// set takes the value of a name. The names of the two versions differ where their
// units do.
func (s *Stat) set(v Version, name, value []byte) (err error) {
	switch string(name) {
	case "nr_periods":
		s.Periods, err = parseNumber(value)
	case "nr_throttled":
		s.Throttled, err = parseNumber(value)
	case "nr_bursts":
		s.NoBursts = false
		s.Bursts, err = parseNumber(value)
	default:
		if v == V1 {
			return s.setTimeV1(name, value)
		}
		return s.setTimeV2(name, value)
	}
	return err
}

func (s *Stat) setTimeV1(name, value []byte) (err error) {
	switch string(name) {
	case "throttled_time":
		s.ThrottledTime, err = parseTime(value, time.Nanosecond)
	case "burst_time":
		s.BurstTime, err = parseTime(value, time.Nanosecond)
	}
	return err
}

func (s *Stat) setTimeV2(name, value []byte) (err error) {
	switch string(name) {
	case "throttled_usec":
		s.ThrottledTime, err = parseTime(value, time.Microsecond)
	case "burst_usec":
		s.BurstTime, err = parseTime(value, time.Microsecond)
	case "usage_usec":
		s.Usage, err = parseTime(value, time.Microsecond)
	}
	return err
}
