package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

const (
	cpuRoot  = "devices/system/cpu"
	nodeRoot = "devices/system/node"
)

// tree is a /sys directory.
type tree struct {
	fsys  fs.FS
	notes *notes
}

func cpuDir(c cpuset.CPU) string       { return fmt.Sprintf(cpuRoot+"/cpu%d", c) }
func nodeDir(n topology.NUMAID) string { return fmt.Sprintf(nodeRoot+"/node%d", n) }

// mend notes a fault, and what is assumed instead.
func (t tree) mend(assumed, fault string, args ...any) { t.notes.addf(assumed, fault, args...) }

// read reads and parses a file, without surrounding white space and the NUL bytes with which some
// captures pad it.
func read[T any](t tree, file string, parse func(string) (T, error)) (T, error) {
	var none T
	content, err := fs.ReadFile(t.fsys, file)
	if err != nil {
		var withPath *fs.PathError
		if errors.As(err, &withPath) {
			err = withPath.Err
		}
		return none, fmt.Errorf("read %s: %w", file, err)
	}
	value, err := parse(strings.Trim(string(content), " \t\n\x00"))
	if err != nil {
		return none, fmt.Errorf("read %s: %w", file, err)
	}
	return value, nil
}

// readOr is read for a file that may be missing or damaged. ok is true if it exists and could be
// parsed. Damage is noted with what is assumed instead.
func readOr[T any](t tree, assumed, file string, parse func(string) (T, error)) (value T, ok bool) {
	value, err := read(t, file, parse)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.notes.add(assumed, err)
	}
	return value, err == nil
}

// readFirst reads CPUs from the first of the files that exists, and returns its name. Files whose
// name ends in "list" contain CPU lists, all others masks. If no file exists, the error names the
// first.
func (t tree) readFirst(files ...string) (cpuset.Set, string, error) {
	var missing error
	for _, file := range files {
		parse := parseMask
		if strings.HasSuffix(file, "list") {
			parse = cpuset.Parse
		}
		cpus, err := read(t, file, parse)
		if !errors.Is(err, fs.ErrNotExist) {
			return cpus, file, err
		}
		if missing == nil {
			missing = err
		}
	}
	return cpuset.Set{}, "", missing
}

// numbered returns the numbers n of the entries prefix<n> of a directory in ascending order, or
// none if the directory does not exist.
func (t tree) numbered(dir, prefix string) ([]int, error) {
	entries, err := fs.ReadDir(t.fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	var numbers []int
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), prefix)
		if n, err := strconv.Atoi(digits); ok && err == nil && n >= 0 && strconv.Itoa(n) == digits {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// numberedOr is numbered for a directory that may be damaged.
func (t tree) numberedOr(assumed, dir, prefix string) []int {
	numbers, err := t.numbered(dir, prefix)
	if err != nil {
		t.notes.add(assumed, err)
	}
	return numbers
}

// setOf returns numbers as a set of CPU ids, without those that a set cannot hold. It is also used
// for NUMA nodes; see parseNodes.
func setOf(numbers []int) (set cpuset.Set) {
	for _, n := range numbers {
		if c := cpuset.CPU(n); c.Valid() {
			set.Add(c)
		}
	}
	return set
}

// exists reports whether the tree has a file or directory.
func (t tree) exists(name string) (bool, error) {
	_, err := fs.Stat(t.fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", name, err)
	}
	return true, nil
}
