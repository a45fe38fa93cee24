package cgroup

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Own returns the group of this process in a controller's hierarchy.
func (fs *FS) Own(c Controller) (string, error) {
	name := filepath.Join(fs.root, "proc/self/cgroup")
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("find this process's control group: %w", err)
	}
	defer f.Close()
	in, err := parseOwn(f, fs.of[c].Version, c)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	group, ok := fs.of[c].reached(in)
	if !ok {
		return "", fmt.Errorf("this process's control group %s is not within %s, where group %s of the hierarchy is mounted: mount all of it",
			in, fs.of[c].Mount, fs.of[c].Part)
	}
	return group, nil
}

// parseOwn reads /proc/PID/cgroup: lines of HIERARCHY:CONTROLLERS:PATH. Version 2
// is number 0 and lists no controllers. A path that begins with "/.." is outside of the
// process's cgroup namespace.
func parseOwn(r io.Reader, v Version, c Controller) (string, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		number, rest, _ := strings.Cut(lines.Text(), ":")
		controllers, group, ok := strings.Cut(rest, ":")
		if !ok || !strings.HasPrefix(group, "/") {
			return "", fmt.Errorf("%q is not a number, controllers and a path", lines.Text())
		}
		if v == V2 && number == "0" || v == V1 && slices.Contains(strings.Split(controllers, ","), string(c)) {
			return group, nil
		}
	}
	if err := lines.Err(); err != nil {
		return "", err
	}
	return "", fmt.Errorf("no line for version %d with the controller %s", v, c)
}

// reached returns the group by its path below the mount, when the mounted part of
// the hierarchy has it. Both paths begin at the root of the cgroup namespace; a
// mount from above that begins with "/..".
func (h Hierarchy) reached(group string) (string, bool) {
	part := path.Clean(h.Part)
	if h.Part == "" {
		part = "/"
	}
	if strings.HasPrefix(h.Part, "/..") || strings.HasPrefix(group, "/..") || !isBelow(group, part) {
		return "", false
	}
	return path.Join("/", strings.TrimPrefix(group, part)), true
}

// Within returns the same control groups with other roots: "/" is then the group
// that is given for the controller. All of them must be given; on version 2 there is
// none for CPUAcct.
func (fs *FS) Within(roots map[Controller]string) *FS {
	within := &FS{root: fs.root, hierarchies: fs.hierarchies, layout: fs.layout,
		of: maps.Clone(fs.of), writes: map[File]WriteCount{}}
	for c, h := range fs.of {
		if h.Mount != "" {
			h.Mount = fs.Dir(c, roots[c])
			within.of[c] = h
		}
	}
	return within
}
