package cgroup

import (
	"bytes"
	"fmt"
	"slices"
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

// UserSystem reads how a group's usage divides into time in programs and in the kernel,
// since it was made.
func (fs *FS) UserSystem(group string) (user, system time.Duration, err error) {
	if fs.layout.CPU == V1 {
		if user, err = readAs(fs, group, CPUAcctUser, ParseUsage); err != nil {
			return 0, 0, err
		}
		system, err = readAs(fs, group, CPUAcctSystem, ParseUsage)
		return user, system, err
	}
	figures, err := readAs(fs, group, CPUStat, parseUserSystem)
	return figures[0], figures[1], err
}

// parseUserSystem reads user_usec and system_usec of version 2's cpu.stat.
func parseUserSystem(text string) (times [2]time.Duration, err error) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		i := slices.Index([]string{"user_usec", "system_usec"}, name)
		if i < 0 {
			continue
		}
		if times[i], err = parseTime(value, time.Microsecond); err != nil {
			return times, fmt.Errorf("%s: %s: %w", CPUStat, name, err)
		}
	}
	return times, nil
}

// ParseUsage parses cpuacct.usage, which is in nanoseconds.
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
		line := text
		if end := bytes.IndexByte(text, '\n'); end >= 0 {
			line, text = text[:end], text[end+1:]
		} else {
			text = nil
		}
		if n := len(line); n == 0 || line[0] <= ' ' || line[n-1] <= ' ' { // none of the kernel's
			line = bytes.TrimSpace(line)
		}
		space := bytes.IndexByte(line, ' ')
		if space < 0 {
			return fmt.Errorf("%s: %q is not a name and a number", CPUStat, string(line))
		}
		if err := s.set(v, line[:space], line[space+1:]); err != nil {
			return fmt.Errorf("%s: %s: %w", CPUStat, string(line[:space]), err)
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
