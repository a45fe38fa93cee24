package cpuset

import (
	"encoding"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// ErrOutOfRange is wrapped by the error of [Parse] when a CPU id is larger than a [Set] can hold.
var ErrOutOfRange = errors.New("CPU id out of range")

var (
	_ encoding.TextMarshaler   = Set{}
	_ encoding.TextUnmarshaler = (*Set)(nil)
)

// Parse parses a Linux cpulist: comma-separated ids and ranges. A range may have a pattern
// "first-last:used/group", which selects the first `used` ids of every `group`, as in
// lib/bitmap-str.c of Linux. White space around the list and its commas is allowed, and so is the
// empty list. Ids may be in any order and may repeat.
func Parse(list string) (Set, error) {
	var s Set
	if list = strings.TrimSpace(list); list == "" {
		return s, nil
	}
	for item := range strings.SplitSeq(list, ",") {
		if err := s.addItem(strings.TrimSpace(item)); err != nil {
			return Set{}, fmt.Errorf("CPU list %q: %w", list, err)
		}
	}
	return s, nil
}

// ParseTyped parses a list of CPUs as people type it, or copy it from other tools. It accepts what
// Parse accepts, and also spaces in place of commas (numactl, systemd), needless commas, strides
// "first-last:step" (lscpu, taskset), "N" for the last CPU that is online, and "all" for all of
// these.
func ParseTyped(list string, online Set) (Set, error) {
	last := CPU(0)
	for c := range online.All() {
		last = c
	}
	var s Set
	for _, item := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
		if strings.EqualFold(item, "all") {
			s = s.Union(online)
			continue
		}
		exact := strings.ReplaceAll(item, "N", strconv.Itoa(int(last)))
		if span, step, ok := strings.Cut(exact, ":"); ok && !strings.Contains(step, "/") {
			exact = span + ":1/" + step
		}
		if err := s.addItem(exact); err != nil {
			return Set{}, fmt.Errorf("CPU list %q: %w; want ids and ranges such as 0-3,8 or 0-14:2, or all", list, err)
		}
	}
	return s, nil
}

// MustParse is like Parse but panics on an error. It is for constants in programs and tests.
func MustParse(list string) Set {
	s, err := Parse(list)
	if err != nil {
		panic(err)
	}
	return s
}

func (s *Set) addItem(item string) error {
	span, pattern, hasPattern := strings.Cut(item, ":")
	from, to, isRange := strings.Cut(span, "-")
	first, err := parseID(from)
	if err != nil {
		return err
	}
	last := first
	if isRange {
		if last, err = parseID(to); err != nil {
			return err
		}
	}
	if last < first {
		return fmt.Errorf("range %q ends before it begins", item)
	}
	used, group := 1, 1
	if hasPattern {
		if !isRange {
			return fmt.Errorf("%q: a pattern needs a range before the colon", item)
		}
		if used, group, err = parsePattern(pattern); err != nil {
			return err
		}
	}
	for c := first; c <= last; c++ {
		if int(c-first)%group < used {
			s.Add(c)
		}
	}
	return nil
}

func parseID(text string) (CPU, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		if errors.Is(err, strconv.ErrRange) {
			return 0, fmt.Errorf("%w: %s is above %d", ErrOutOfRange, text, MaxCPUs-1)
		}
		return 0, fmt.Errorf("%q is not a CPU id", text)
	}
	if n >= MaxCPUs {
		return 0, fmt.Errorf("%w: %s is above %d", ErrOutOfRange, text, MaxCPUs-1)
	}
	return CPU(n), nil
}

func parsePattern(text string) (used, group int, err error) {
	u, g, ok := strings.Cut(text, "/")
	if ok {
		used, err = strconv.Atoi(u)
	}
	if ok && err == nil {
		group, err = strconv.Atoi(g)
	}
	if !ok || err != nil || used < 0 || group < 1 || used > group {
		return 0, 0, fmt.Errorf("pattern %q is not used/group with 0 <= used <= group", text)
	}
	return used, group, nil
}

// String returns the canonical cpulist: ascending, with adjacent ids joined to ranges, and "" for
// the empty set. [Parse] accepts it.
func (s Set) String() string { return string(s.Append(nil)) }

// Append appends the canonical cpulist to b.
func (s Set) Append(b []byte) []byte {
	start := len(b)
	for first := s.First(); first != -1; {
		last := first
		for (last + 1).Valid() && s.Contains(last+1) {
			last++
		}
		if len(b) > start {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(first), 10)
		if last > first {
			b = append(b, '-')
			b = strconv.AppendInt(b, int64(last), 10)
		}
		first = s.next(last + 1)
	}
	return b
}

// MarshalText returns the canonical cpulist.
func (s Set) MarshalText() ([]byte, error) { return s.Append(nil), nil }

// UnmarshalText parses text with Parse. On an error it does not change the set.
func (s *Set) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*s = parsed
	return nil
}
