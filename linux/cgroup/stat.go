package cgroup

import (
	"bytes"
	"fmt"
	"strings"
	"time"
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
	// NoBursts is true if the kernel is older than BurstStatisticsSince: it counts periods, but no
	// bursts.
	NoBursts bool
	Usage    time.Duration // CPU time used
}

// Stat reads a group's cpu.stat and, on version 1, cpuacct.usage. A kernel without limits
// (CONFIG_CFS_BANDWIDTH) has no cpu.stat on version 1: then there is only usage.
func (fs *FS) Stat(group string) (Stat, error) {
	s, err := readAs(fs, group, CPUStat, func(text string) (Stat, error) { return parseStat(fs.layout.CPU, text) })
	if fs.layout.CPU == V1 && isUnsupported(err) {
		s, err = Stat{}, nil
	}
	if err != nil || fs.layout.CPU == V2 {
		return s, err
	}
	s.Usage, err = readAs(fs, group, CPUAcctUsage, parseNanoseconds)
	return s, err
}

// UserSystem reads the CPU time that a group has used in user mode and in the kernel since it was
// created.
func (fs *FS) UserSystem(group string) (user, system time.Duration, err error) {
	if fs.layout.CPU == V1 {
		if user, err = readAs(fs, group, CPUAcctUser, parseNanoseconds); err != nil {
			return 0, 0, err
		}
		system, err = readAs(fs, group, CPUAcctSystem, parseNanoseconds)
		return user, system, err
	}
	times, err := readAs(fs, group, CPUStat, parseUserSystem)
	return times[0], times[1], err
}

// parseUserSystem parses user_usec and system_usec of version 2's cpu.stat.
func parseUserSystem(text string) (times [2]time.Duration, err error) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case "user_usec":
			times[0], err = parseTime(value, time.Microsecond)
		case "system_usec":
			times[1], err = parseTime(value, time.Microsecond)
		}
		if err != nil {
			return times, fmt.Errorf("%s: %s: %w", CPUStat, name, err)
		}
	}
	return times, nil
}

// parseStat parses cpu.stat: lines of a name and a number. Version 1 has times in nanoseconds and
// no usage, version 2 has microseconds. Other lines are ignored, because vendors add their own.
// Fields without a name are 0: a group without the cpu controller has only usage.
func parseStat(v Version, text string) (Stat, error) {
	var s Stat
	if err := s.parse(v, []byte(text)); err != nil {
		return Stat{}, err
	}
	return s, nil
}

// parse is parseStat without allocation, except for errors.
func (s *Stat) parse(v Version, text []byte) error {
	*s = Stat{}
	periods, bursts := false, false
	for len(text) > 0 {
		line := text
		if end := bytes.IndexByte(text, '\n'); end >= 0 {
			line, text = text[:end], text[end+1:]
		} else {
			text = nil
		}
		name, rest := cutWord(line)
		value, _ := cutWord(rest)
		periods = periods || string(name) == "nr_periods"
		bursts = bursts || string(name) == "nr_bursts"
		if err := s.set(v, name, value); err != nil {
			return fmt.Errorf("%s: %s: %w", CPUStat, string(name), err)
		}
	}
	s.NoBursts = periods && !bursts
	return nil
}

// set sets the field of a name. The names of times differ between the versions.
func (s *Stat) set(v Version, name, value []byte) (err error) {
	switch string(name) {
	case "nr_periods":
		s.Periods, err = parseCount(value)
		return err
	case "nr_throttled":
		s.Throttled, err = parseCount(value)
		return err
	case "nr_bursts":
		s.Bursts, err = parseCount(value)
		return err
	}
	v1, unit := v == V1, time.Microsecond
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
