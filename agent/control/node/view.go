package node

import (
	"slices"

	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
)

// View is the present settings of the pods' cgroups.
type View struct {
	Layout cgroup.Layout
	Above  []string // paths of the groups above the tiers, except the root
	Tiers  []string // paths, parents first
	Pods   []kubepods.Pod
	// Settings are the settings of all these cgroups, by path. Of unknown containers only the CPUs
	// are set. Effective CPUs are set of known containers on version 2, and partitions of all
	// cgroups if there may be any. Cgroups that disappeared or could not be read are missing.
	Settings map[string]cgroup.Settings
	// Lacking is why mechanisms for batch pods cannot be used, in words for users. If it is nil, the
	// last one remains valid.
	Lacking map[colocation.Mechanism]string
}

// Exists reports whether a cgroup was observed.
func (v *View) Exists(path string) bool {
	_, ok := v.Settings[path]
	return path != "" && ok
}

// AbovePods returns the groups above the pods.
func (v *View) AbovePods() []string { return slices.Concat(v.Above, v.Tiers) }

// Add adds the cgroup of a pod or container that was created since the observation.
func (v *View) Add(path string, where kubepods.Place, settings cgroup.Settings) {
	v.Settings[path] = settings
	at := slices.IndexFunc(v.Pods, func(p kubepods.Pod) bool { return p.UID == where.PodUID })
	if at < 0 {
		at = len(v.Pods)
		v.Pods = append(v.Pods, kubepods.Pod{Path: path, UID: where.PodUID, Tier: where.Tier})
	}
	pod := &v.Pods[at]
	if where.Container == "" {
		pod.Path = path
		return
	}
	if !slices.ContainsFunc(pod.Containers, func(k kubepods.Container) bool { return k.Path == path }) {
		pod.Containers = append(pod.Containers, kubepods.Container{Path: path, ID: where.Container, Runtime: where.Runtime})
	}
}

// runs reports whether the pod with this id, as the kubelet uses it, had cgroups below its own when
// last observed.
func (v *View) runs(id ledger.PodID) bool {
	return v != nil && slices.ContainsFunc(v.Pods, func(p kubepods.Pod) bool {
		return ledger.PodID(p.UID) == id && len(p.Containers)+len(p.Others) > 0
	})
}

// IsBehind reports whether a pod with these settings runs behind all others.
func IsBehind(s cgroup.Settings) bool { return s.Idle || s.BVT < 0 }
