package cgroup

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// mount is one line of /proc/PID/mountinfo; see proc_pid_mountinfo(5).
type mount struct {
	id, parent int
	root       string // the directory of the file system that is mounted
	point      string
	readOnly   bool
	fsType     string
	options    []string // of the superblock: the controllers of a v1 hierarchy
}

// parseMountinfo reads /proc/PID/mountinfo and returns all mounts.
func parseMountinfo(r io.Reader) ([]mount, error) {
	var mounts []mount
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20) // overlay mounts list all their layers
	for n := 1; lines.Scan(); n++ {
		m, err := parseMount(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		mounts = append(mounts, m)
	}
	return mounts, lines.Err()
}

// parseMount reads "ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAG...] - TYPE SOURCE
// SUPER-OPTIONS".
func parseMount(line string) (mount, error) {
	fields := strings.Split(line, " ")
	dash := slices.Index(fields, "-")
	if dash < 6 || len(fields) < dash+4 {
		return mount{}, fmt.Errorf("%q is not a line of mountinfo", line)
	}
	id, errID := strconv.Atoi(fields[0])
	parent, errParent := strconv.Atoi(fields[1])
	if errID != nil || errParent != nil {
		return mount{}, fmt.Errorf("%q does not begin with two numbers", line)
	}
	options := strings.Split(fields[dash+3], ",")
	return mount{
		id: id, parent: parent,
		root: unescape(fields[3]), point: unescape(fields[4]),
		readOnly: slices.Contains(strings.Split(fields[5], ","), "ro") || slices.Contains(options, "ro"),
		fsType:   fields[dash+1],
		options:  slices.DeleteFunc(options, func(o string) bool { return o == "rw" || o == "ro" }),
	}, nil
}

// unescape undoes the kernel's octal escapes of space, tab, newline and backslash
// (show_mountinfo in fs/proc_namespace.c).
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`, `\043`, "#").Replace(s)
}

// visible returns the mounts that a path leads to: those that no later mount
// covers. One mount covers another when it is mounted on it at its very root, or
// beside it, on the same parent, on a directory above.
func visible(mounts []mount) []mount {
	byID := make(map[int]mount, len(mounts))
	byParent := make(map[int][]mount, len(mounts))
	for _, m := range mounts {
		byID[m.id] = m
		byParent[m.parent] = append(byParent[m.parent], m)
	}
	onTop := func(m mount) bool {
		return slices.ContainsFunc(byParent[m.id], func(o mount) bool { return o.id != m.id && o.point == m.point })
	}
	beside := func(m mount) bool {
		return slices.ContainsFunc(byParent[m.parent], func(o mount) bool {
			return o.id != m.id && o.id != m.parent && o.point != m.point && isBelow(m.point, o.point)
		})
	}
	reached := func(m mount) bool {
		for range len(mounts) { // a loop of parents, in a broken file, ends too
			if beside(m) {
				return false
			}
			parent, ok := byID[m.parent]
			if !ok || parent.id == m.id {
				return true
			}
			m = parent
		}
		return false
	}
	var seen []mount
	for _, m := range mounts {
		if !onTop(m) && reached(m) {
			seen = append(seen, m)
		}
	}
	return seen
}

// isBelow reports whether a path is the directory or below it.
func isBelow(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, "/"))
	return ok && (rest == "" || rest[0] == '/')
}
