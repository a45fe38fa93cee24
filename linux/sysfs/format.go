package sysfs

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"pinfold.dev/pinfold/core/cpuset"
)

// parseMask parses a bitmap as the kernel prints it (%*pb): hexadecimal words of 32 bits, the
// highest first, separated by commas. Words beyond the capacity of a set must be 0.
func parseMask(text string) (cpuset.Set, error) {
	var s cpuset.Set
	words := strings.Split(text, ",")
	for i, word := range words {
		if len(word) > 8 || i > 0 && len(word) != 8 {
			return cpuset.Set{}, fmt.Errorf("mask %q: %q is not a word of 8 hexadecimal digits", text, word)
		}
		bits, err := strconv.ParseUint(word, 16, 32)
		if err != nil {
			return cpuset.Set{}, fmt.Errorf("mask %q: %q is not a hexadecimal number", text, word)
		}
		lowest := cpuset.CPU(32 * (len(words) - 1 - i))
		for bit := range cpuset.CPU(32) {
			if bits>>bit&1 == 0 {
				continue
			}
			if c := lowest + bit; !c.Valid() {
				return cpuset.Set{}, fmt.Errorf("mask: %w: %d is above %d", cpuset.ErrOutOfRange, c, cpuset.MaxCPUs-1)
			}
			s.Add(lowest + bit)
		}
	}
	return s, nil
}

// parseID parses the id of a package or die. -1 means unknown.
func parseID(text string) (int, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < unknown {
		return 0, fmt.Errorf("%q is not an id", text)
	}
	return int(n), nil
}

// parseFlag parses "0" or "1".
func parseFlag(text string) (bool, error) {
	if text != "0" && text != "1" {
		return false, fmt.Errorf("%q is neither 0 nor 1", text)
	}
	return text == "1", nil
}

// parseFigure parses an unsigned number: a cache level, a capacity, a frequency.
func parseFigure(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	return n, nil
}

// maxNodes is Linux's largest number of NUMA nodes. It is also the capacity of a set of CPUs.
const maxNodes = cpuset.MaxCPUs

// parseNodes parses a list of NUMA nodes, which has the form of a CPU list.
func parseNodes(text string) ([]int, error) {
	set, err := cpuset.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("NUMA nodes: %w", err)
	}
	var nodes []int
	for n := range set.All() {
		nodes = append(nodes, int(n))
	}
	return nodes, nil
}

// parseDistances parses one row of the table of distances between NUMA nodes.
func parseDistances(text string) ([]int, error) {
	var row []int
	for field := range strings.FieldsSeq(text) {
		d, err := strconv.ParseUint(field, 10, 16)
		if err != nil || d == 0 {
			return nil, fmt.Errorf("distances %q: %q is not a distance", text, field)
		}
		row = append(row, int(d))
	}
	return row, nil
}

// parseMemTotal returns the bytes of the line "Node 0 MemTotal: 131732940 kB" in a node's meminfo.
func parseMemTotal(text string) (uint64, error) {
	for line := range strings.Lines(text) {
		_, rest, ok := strings.Cut(line, " MemTotal:")
		if !ok {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) != 2 || fields[1] != "kB" {
			return 0, fmt.Errorf("%q is not a number of kB", strings.TrimSpace(line))
		}
		kib, err := strconv.ParseUint(fields[0], 10, 64)
		if err != nil || kib > math.MaxUint64/1024 {
			return 0, fmt.Errorf("%q is not a number of kB", strings.TrimSpace(line))
		}
		return kib * 1024, nil
	}
	return 0, errors.New("no line has MemTotal")
}
