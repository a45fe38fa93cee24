package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path"

	"pinfold.dev/pinfold/core/nodeplan"
)

// Pod is the group of a pod that exists.
type Pod struct {
	Path       string
	UID        string
	Tier       nodeplan.Tier
	Containers []Container // in the order of their names; sandboxes included
	// Others are the paths of groups in it whose names are no container's: another
	// runtime's (kata_ID), or a monitor's (crio-conmon-ID).
	Others []string
}

// Container is the existing group of a container. Sandboxes (pause containers) have a group too,
// which cannot be distinguished from a container's.
type Container struct {
	Path    string
	ID      string
	Runtime string // prefix of the group's name, may be ""
}

// ErrNoKubepods reports that no kubelet has created groups.
var ErrNoKubepods = errors.New("there are no groups of a kubelet")

// Naming finds out which driver the kubelet uses, from what exists below its
// --cgroup-root ("" for the root). Where both drivers' groups exist, as after a
// change of drivers, the ones that hold pods decide.
func (fs *FS) Naming(cgroupRoot string) (Naming, error) {
	var exist, used []Naming
	for _, d := range []Driver{Systemd, Cgroupfs} {
		n := Naming{Driver: d, Root: cgroupRoot}
		if !isDir(fs.Dir(CPU, n.Tier(nodeplan.Guaranteed))) {
			continue
		}
		exist = append(exist, n)
		pods, err := fs.Pods(n)
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
	case len(exist) == 1:
		return exist[0], nil
	case len(exist) == 0:
		n := Naming{Driver: Cgroupfs, Root: cgroupRoot}
		return Naming{}, fmt.Errorf("%w: neither %s nor its systemd form exists: is the kubelet running, and with this --cgroup-root?",
			ErrNoKubepods, fs.Dir(CPU, n.Tier(nodeplan.Guaranteed)))
	}
	return Naming{}, fmt.Errorf("both %s and %s exist, and %d of them hold pods: remove the groups of the driver that the kubelet does not use",
		fs.Dir(CPU, exist[0].Tier(nodeplan.Guaranteed)), fs.Dir(CPU, exist[1].Tier(nodeplan.Guaranteed)), len(used))
}

// Pods lists the pods and containers that have groups, in the hierarchy of the cpu
// controller: burstable ones first, then best effort, then guaranteed, each in the
// order of their names. Groups that vanish meanwhile are left out.
func (fs *FS) Pods(n Naming) ([]Pod, error) {
	var pods []Pod
	for _, t := range deepestFirst() {
		paths, err := fs.below(n.Tier(t))
		if err != nil {
			return nil, err
		}
		for _, p := range paths {
			place, ok := n.Parse(p)
			if !ok || place.PodUID == "" {
				continue
			}
			pod := Pod{Path: p, UID: place.PodUID, Tier: t}
			if err = fs.within(n, &pod); err != nil {
				return nil, err
			}
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// within lists the groups in a pod's. What is no container may be in the hierarchy of the
// cpuset controller only.
func (fs *FS) within(n Naming, pod *Pod) error {
	paths, err := fs.below(pod.Path)
	if err != nil {
		return err
	}
	for _, p := range paths {
		if place, ok := n.Parse(p); ok {
			pod.Containers = append(pod.Containers, Container{Path: p, ID: place.Container, Runtime: place.Runtime})
		}
	}
	if fs.of[CPU].Mount != fs.of[CPUSet].Mount {
		if paths, err = fs.belowIn(CPUSet, pod.Path); err != nil {
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

// below lists the groups directly below one, in the hierarchy of the cpu controller.
func (fs *FS) below(group string) ([]string, error) { return fs.belowIn(CPU, group) }

// belowIn lists the groups directly below one; none when it does not exist.
func (fs *FS) belowIn(c Controller, group string) ([]string, error) {
	entries, err := os.ReadDir(fs.Dir(c, group))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list the groups below %s: %w", group, err)
	}
	var paths []string
	for _, e := range entries {
		if e.IsDir() {
			paths = append(paths, path.Join(group, e.Name()))
		}
	}
	return paths, nil
}
