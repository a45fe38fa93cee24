package sysfs

import (
	"cmp"
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

// tree is a /sys directory. Its methods named after a file read that file.
type tree struct{ fsys fs.FS }

func cpuDir(c cpuset.CPU) string       { return fmt.Sprintf(cpuRoot+"/cpu%d", c) }
func nodeDir(n topology.NUMAID) string { return fmt.Sprintf(nodeRoot+"/node%d", n) }

// contradiction makes the error about files that do not agree.
func contradiction(format string, args ...any) error {
	return fmt.Errorf("%w: %w", topology.ErrInconsistent, fmt.Errorf(format, args...))
}

// read reads one file and parses what it holds, without the white space around
// it and the NUL bytes with which some captures pad it.
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

// readIfThere is read for a file that may be missing; ok says whether it is there.
func readIfThere[T any](t tree, file string, parse func(string) (T, error)) (value T, ok bool, err error) {
	value, err = read(t, file, parse)
	if errors.Is(err, fs.ErrNotExist) {
		return value, false, nil
	}
	return value, err == nil, err
}

// readFirst reads CPUs from the first of the files that is there. Files whose
// name ends in "list" hold cpulists, all others masks. The error when there is
// none names the first.
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

// numbered returns the numbers n of the entries prefix<n> of a directory,
// ascending; none when the directory does not exist.
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
	slices.SortFunc(numbers, cmp.Compare[int])
	return numbers, nil
}

// exists reports whether the tree has this file or directory.
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
