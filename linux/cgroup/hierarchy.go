package cgroup

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"

	"pinfold.dev/pinfold/linux/cgroup/internal/kernfile"
)

// Hierarchy is a mounted hierarchy of cgroups.
type Hierarchy struct {
	Version     Version
	Mount       string // mount point, as this process reaches it
	Controllers []string
	ReadOnly    bool
	// Part is the group that is mounted, as seen in the process's cgroup namespace. "/" means the
	// whole hierarchy.
	Part string
}

// findHierarchies returns the mounted hierarchies. Mount points in mountinfo are relative to the
// process's root, so root is prepended. The exception is a root that contains mounts of its own,
// such as the host's /sys mounted into a container: then only those count.
func findHierarchies(root string, mounts []*mountinfo.Info) ([]Hierarchy, error) {
	var below, found []Hierarchy
	for _, m := range visible(mounts) {
		options := strings.Split(m.VFSOptions, ",") // the controllers of version 1, and rw or ro
		h := Hierarchy{Version: V1, Mount: m.Mountpoint, Part: m.Root,
			ReadOnly:    slices.Contains(strings.Split(m.Options, ","), "ro") || slices.Contains(options, "ro"),
			Controllers: slices.DeleteFunc(options, func(o string) bool { return o == "rw" || o == "ro" })}
		switch m.FSType {
		case "cgroup":
		case "cgroup2":
			h.Version = V2
		default:
			continue
		}
		if root != "/" && isBelow(m.Mountpoint, root) {
			below = append(below, h)
			continue
		}
		h.Mount = filepath.Join(root, m.Mountpoint)
		found = append(found, h)
	}
	if len(below) > 0 {
		found = below
	}
	for i := range found {
		if h := &found[i]; h.Version == V2 {
			var err error
			if h.Controllers, err = kernfile.Words(filepath.Join(h.Mount, ControllersFile)); err != nil {
				return nil, fmt.Errorf("read the controllers of a cgroup2 mount: %w", err)
			}
		}
	}
	return found, nil
}

// choose returns the hierarchy of a controller. Several mounts of one version are the same
// hierarchy: choose prefers a whole one to a part, then a writable one to a read-only one.
func choose(c Controller, all []Hierarchy, where string) (Hierarchy, error) {
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
	drawbacks := func(h Hierarchy) (n int) {
		if strings.Trim(h.Part, "/.") != "" { // the host's root is "/..", "/../.." in a cgroup namespace
			n += 2
		}
		if h.ReadOnly {
			n++
		}
		return n
	}
	return slices.MinFunc(with, func(a, b Hierarchy) int { return cmp.Compare(drawbacks(a), drawbacks(b)) }), nil
}

// Below converts a path in the cgroup namespace to one below the mount. It returns false if the
// mounted part of the hierarchy does not include the group. A part above the namespace's root
// begins with "/..".
func (h Hierarchy) Below(group string) (string, bool) {
	part := path.Clean("/" + h.Part)
	if strings.HasPrefix(h.Part, "/..") || strings.HasPrefix(group, "/..") || !isBelow(group, part) {
		return "", false
	}
	return path.Join("/", strings.TrimPrefix(group, part)), true
}

func missingAdvice(c Controller, all []Hierarchy) string {
	if len(all) == 0 {
		return "mount the host's /sys/fs/cgroup, with all that is mounted below it"
	}
	var mounted []string
	for _, h := range all {
		if _, err := os.Stat(filepath.Join(h.Mount, TypeFile)); h.Version == V2 && err == nil { // the root has no such file
			return fmt.Sprintf("only a group without it is mounted at %s: start this container or service with Delegate=cpu cpuset, or mount the host's /sys/fs/cgroup",
				h.Mount)
		}
		mounted = append(mounted, fmt.Sprintf("%s (v%d: %s)", h.Mount, h.Version, strings.Join(h.Controllers, " ")))
	}
	return fmt.Sprintf("mount it (version 1: mount -t cgroup -o %s), or boot without cgroup_disable=%s; mounted are %s",
		c, c, strings.Join(mounted, ", "))
}

// visible returns the mounts that their paths lead to, that is, those not covered by a later mount.
// A mount covers another one if it is mounted on the root of that one, or if both have the same
// parent and it is mounted on a directory above.
func visible(mounts []*mountinfo.Info) []*mountinfo.Info {
	byID := make(map[int]*mountinfo.Info, len(mounts))
	byParent := make(map[int][]*mountinfo.Info, len(mounts))
	for _, m := range mounts {
		byID[m.ID] = m
		byParent[m.Parent] = append(byParent[m.Parent], m)
	}
	coveredAtRoot := func(m *mountinfo.Info) bool {
		return slices.ContainsFunc(byParent[m.ID], func(o *mountinfo.Info) bool { return o.ID != m.ID && o.Mountpoint == m.Mountpoint })
	}
	coveredAbove := func(m *mountinfo.Info) bool {
		return slices.ContainsFunc(byParent[m.Parent], func(o *mountinfo.Info) bool {
			return o.ID != m.ID && o.ID != m.Parent && o.Mountpoint != m.Mountpoint && isBelow(m.Mountpoint, o.Mountpoint)
		})
	}
	reachable := func(m *mountinfo.Info) bool {
		for range len(mounts) { // bounds a loop of parents in a broken file
			if coveredAbove(m) {
				return false
			}
			parent, ok := byID[m.Parent]
			if !ok || parent.ID == m.ID {
				return true
			}
			m = parent
		}
		return false
	}
	return slices.DeleteFunc(slices.Clone(mounts), func(m *mountinfo.Info) bool { return coveredAtRoot(m) || !reachable(m) })
}

// isBelow reports whether a path is the directory or below it.
func isBelow(name, dir string) bool {
	rest, ok := strings.CutPrefix(name, strings.TrimSuffix(dir, "/"))
	return ok && (rest == "" || rest[0] == '/')
}
