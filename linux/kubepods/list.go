package kubepods

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Pod is the existing group of a pod.
type Pod struct {
	Path       string
	UID        string
	Tier       qos.Tier
	Containers []Container // sorted by name, including sandboxes
	// Others are the paths of groups in the pod's group that have no container's name, such as
	// those of another runtime (kata_ID) or of a monitor (crio-conmon-ID).
	Others []string
}

// Container is the existing group of a container. Sandboxes (pause containers) have a group too,
// which cannot be distinguished from a container's.
type Container struct {
	Path    string
	ID      string
	Runtime string // prefix of the group's name, may be ""
}

// Errors for errors.Is.
var (
	// ErrNotFound reports that no kubelet has created groups.
	ErrNotFound = errors.New("there are no groups of a kubelet")
	// ErrSeveral reports that it is not known which groups are those of the kubelet.
	ErrSeveral = errors.New("several groups may be those of a kubelet")
)

// Find detects the kubelet's cgroup driver from the groups below its --cgroup-root ("" for the
// root). If the groups of both drivers exist, as after a change of drivers, those that contain pods
// decide. The error wraps [ErrNotFound] if there are none.
func Find(fs *cgroup.FS, cgroupRoot string) (Naming, error) {
	var exist, used []Naming
	for _, d := range []Driver{Systemd, Cgroupfs} {
		n := Naming{Driver: d, Root: cgroupRoot}
		if info, err := os.Stat(n.topDir(fs)); err == nil && info.IsDir() {
			exist = append(exist, n)
		}
	}
	if len(exist) == 1 {
		return exist[0], nil
	}
	for _, n := range exist {
		pods, err := n.Pods(fs)
		if err != nil {
			return Naming{}, err
		}
		if len(pods) > 0 {
			used = append(used, n)
		}
	}
	switch {
	case len(used) == 1:
		return used[0], nil
	case len(exist) == 0:
		return Naming{}, fmt.Errorf("%w: neither %s nor its systemd form exists: is the kubelet running, and with this --cgroup-root?",
			ErrNotFound, Naming{Driver: Cgroupfs, Root: cgroupRoot}.topDir(fs))
	}
	return Naming{}, fmt.Errorf("both %s and %s exist, and %d of them hold pods: remove the groups of the driver that the kubelet does not use",
		exist[0].topDir(fs), exist[1].topDir(fs), len(used))
}

// AgentFile is where the agent saves the kubelet's configuration, below the root directory.
const AgentFile = "run/pinfold/kubelet.json"

// Locate is Find for programs that may not know the kubelet's --cgroup-root: without one, it takes
// the root that the agent has saved, and otherwise the only group that is named as that of all pods.
func Locate(fs *cgroup.FS, cgroupRoot string) (Naming, error) {
	if cgroupRoot != "" {
		return Find(fs, cgroupRoot)
	}
	var saved struct{ CgroupRoot string }
	if text, err := os.ReadFile(filepath.Join(fs.Root(), AgentFile)); err == nil && json.Unmarshal(text, &saved) == nil {
		if n, err := Find(fs, saved.CgroupRoot); err == nil {
			return n, nil
		}
	}
	n, err := Find(fs, "")
	if !errors.Is(err, ErrNotFound) {
		return n, err
	}
	roots, unlisted := rootsBelow(fs, "/", maxRootDepth)
	switch {
	case len(roots) == 1:
		return Find(fs, roots[0])
	case len(roots) > 1:
		return n, fmt.Errorf("%w: choose one with --cgroup-root: %s", ErrSeveral, strings.Join(roots, ", "))
	case unlisted != nil:
		err = fmt.Errorf("%w; some groups were not searched: %w", err, unlisted)
	}
	return n, err
}

// maxRootDepth bounds the levels of groups that are searched for those of a kubelet.
const maxRootDepth = 3

// rootsBelow returns the values of --cgroup-root with which a kubelet would use groups that exist
// below a group, each once. The error is about groups that cannot be listed.
func rootsBelow(fs *cgroup.FS, group string, depth int) (roots []string, unlisted error) {
	children, unlisted := fs.Children(cgroup.CPU, group)
	for _, child := range children {
		above := strings.TrimSuffix(path.Base(group), slice)
		for _, n := range []Naming{{Cgroupfs, group}, {Systemd, "/" + strings.ReplaceAll(above, "-", "/")}} {
			if n.Tier(qos.Guaranteed) == child {
				roots = append(roots, n.Root)
			}
		}
		if depth > 1 {
			below, err := rootsBelow(fs, child, depth-1)
			roots, unlisted = append(roots, below...), errors.Join(unlisted, err)
		}
	}
	return slices.Compact(roots), unlisted
}

// topDir returns the directory of the group that contains all pods.
func (n Naming) topDir(fs *cgroup.FS) string { return fs.Dir(cgroup.CPU, n.Tier(qos.Guaranteed)) }

// Pods lists the pods and containers that have groups in the hierarchy of the cpu controller:
// burstable pods first, then best effort, then guaranteed ones, each sorted by name. It omits
// groups that disappear meanwhile. With UIDs, it reads and lists the groups of these pods only.
func (n Naming) Pods(fs *cgroup.FS, uids ...string) ([]Pod, error) {
	var pods []Pod
	for _, t := range deepestFirst() {
		paths, err := fs.Children(cgroup.CPU, n.Tier(t))
		if err != nil {
			return nil, err
		}
		for _, p := range paths {
			place, ok := n.Parse(p)
			if !ok || place.PodUID == "" || len(uids) > 0 && !slices.Contains(uids, place.PodUID) {
				continue
			}
			pod := Pod{Path: p, UID: place.PodUID, Tier: t}
			if err = n.listWithin(fs, &pod); err != nil {
				return nil, err
			}
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// listWithin lists the groups in a pod's group. Those that are not containers may exist in the
// hierarchy of the cpuset controller only.
func (n Naming) listWithin(fs *cgroup.FS, pod *Pod) error {
	paths, err := fs.Children(cgroup.CPU, pod.Path)
	if err != nil {
		return err
	}
	for _, p := range paths {
		if place, ok := n.Parse(p); ok {
			pod.Containers = append(pod.Containers, Container{Path: p, ID: place.Container, Runtime: place.Runtime})
		}
	}
	if fs.Hierarchy(cgroup.CPU).Mount != fs.Hierarchy(cgroup.CPUSet).Mount {
		if paths, err = fs.Children(cgroup.CPUSet, pod.Path); err != nil {
			return err
		}
	}
	for _, p := range paths {
		if _, ok := n.Parse(p); !ok {
			pod.Others = append(pod.Others, p)
		}
	}
	return nil
}

// Containers lists the paths of the groups of all containers, including sandboxes.
func (n Naming) Containers(fs *cgroup.FS) ([]string, error) {
	pods, err := n.Pods(fs)
	var groups []string
	for _, p := range pods {
		for _, c := range p.Containers {
			groups = append(groups, c.Path)
		}
	}
	return groups, err
}
