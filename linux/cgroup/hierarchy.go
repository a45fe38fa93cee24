package cgroup

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Hierarchy is a mounted hierarchy of control groups.
type Hierarchy struct {
	Version     Version
	Mount       string // where it is mounted, as this process reaches it
	Controllers []string
	ReadOnly    bool
	// Part is the group that is mounted, when that is not the hierarchy's root as
	// the process's cgroup namespace sees it: "/" for all of it.
	Part string
}

// hierarchies returns the mounted hierarchies. Paths in mountinfo are those of the
// process's root; the root that was asked for is put before them, unless mounts
// lie below it already, as with a host's /sys mounted into a container.
func hierarchies(root string, mounts []mount) ([]Hierarchy, error) {
	var below, found []Hierarchy
	for _, m := range visible(mounts) {
		if m.fsType != "cgroup" && m.fsType != "cgroup2" {
			continue
		}
		h := Hierarchy{Version: V1, Mount: m.point, Controllers: m.options, ReadOnly: m.readOnly, Part: m.root}
		if m.fsType == "cgroup2" {
			h.Version, h.Controllers = V2, nil
		}
		if root != "/" && isBelow(m.point, root) {
			below = append(below, h)
			continue
		}
		h.Mount = filepath.Join(root, m.point)
		found = append(found, h)
	}
	if len(below) > 0 {
		found = below
	}
	for i := range found {
		if found[i].Version == V2 {
			if err := found[i].readControllers(); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// readControllers reads cgroup.controllers of a version 2 hierarchy.
func (h *Hierarchy) readControllers() error {
	text, err := os.ReadFile(filepath.Join(h.Mount, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("read the controllers of a cgroup2 mount: %w", err)
	}
	h.Controllers = strings.Fields(string(text))
	return nil
}

// whole reports whether the hierarchy is mounted from its root on. Within a cgroup
// namespace the host's root reads "/..", "/../.." and so on.
func (h Hierarchy) whole() bool {
	return strings.Trim(h.Part, "/.") == ""
}

// find chooses the hierarchy of a controller. Several mounts of one version are
// the same hierarchy: a whole one is better than a part, a writable one better
// than a read-only one.
func find(c Controller, all []Hierarchy, where string) (Hierarchy, error) {
	var with []Hierarchy
	for _, h := range all {
		if slices.Contains(h.Controllers, string(c)) {
			with = append(with, h)
		}
	}
	if len(with) == 0 {
		return Hierarchy{}, &HierarchyError{c, where, ErrNoHierarchy, missingAdvice(c, all)}
	}
	for _, h := range with {
		if h.Version != with[0].Version {
			return Hierarchy{}, &HierarchyError{c, with[0].Mount + " and " + h.Mount, ErrBothVersions,
				"a kernel has it in one only, so one of the mounts is not a real one: unmount it"}
		}
	}
	slices.SortStableFunc(with, func(a, b Hierarchy) int {
		return cmp.Or(order(b.whole(), a.whole()), order(a.ReadOnly, b.ReadOnly))
	})
	return with[0], nil
}

// order puts false before true.
func order(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

func missingAdvice(c Controller, all []Hierarchy) string {
	if len(all) == 0 {
		return "mount the host's /sys/fs/cgroup, with all that is mounted below it"
	}
	var is []string
	for _, h := range all {
		is = append(is, fmt.Sprintf("%s (v%d: %s)", h.Mount, h.Version, strings.Join(h.Controllers, " ")))
	}
	return fmt.Sprintf("mount it (version 1: mount -t cgroup -o %s), or boot without cgroup_disable=%s; mounted are %s",
		c, c, strings.Join(is, ", "))
}
