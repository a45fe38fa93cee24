// Package groups holds the cgroups of a node's pods: what they are set to, whose they are, and what
// is planned for them. These are the values that the controllers of the agent decide from.
package groups

import (
	"path"
	"slices"
	"strings"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/feature"
	"pinfold.dev/pinfold/linux/kubepods"
)

// View is the present settings of the pods' cgroups.
type View struct {
	Layout cgroup.Layout
	Above  []string // paths of the groups above the tiers, except the root, parents first
	Tiers  []string // paths, parents first
	// Root is the bandwidth of the root group, which has one if the node runs in a container.
	Root cgroup.Settings
	Pods []kubepods.Pod
	// Settings are the settings of all these cgroups, by path. Of unknown containers only the CPUs
	// are set. Effective CPUs are set of known containers on version 2, and partitions of all
	// cgroups if there may be any. Cgroups that disappeared or could not be read are missing.
	Settings map[string]cgroup.Settings
	// Inner are the groups in containers' that the runtime has moved all processes of these to, with
	// the limits of the containers (crun with systemd), by the container's path. The limits of other
	// groups are the container's own affair.
	Inner map[string]string
	// Partial is set if some could not be read.
	Partial bool
	// BurstOff is why groups have no burst although the kernel has the files, or "".
	BurstOff string
	// Lacking is why mechanisms for batch pods cannot be used, in words for users. If it is nil, the
	// last one remains valid.
	Lacking map[colocation.Mechanism]string
}

// unknownMark is the first character of [nodeplan.Ref.Container] for cgroups of unknown containers.
// Kubernetes allows it in no container name.
const unknownMark = "#"

// Groups are the observed cgroups and the pods and containers that they belong to.
type Groups struct {
	View
	Online cpuset.Set // CPUs of the machine that pods may use
	// Allowed are those that the groups of tiers may use, and Withheld those that no pod may use.
	Allowed  map[nodeplan.Tier]cpuset.Set
	Withheld cpuset.Set
	// NoBurst is why the kernel has no burst, or "".
	NoBurst string
	// Pod and Container are paths, set by Locate. The containers include unknown and others.
	Pod       map[ledger.PodID]string
	Container map[nodeplan.Ref]string
	Unknown   []nodeplan.Ref // with the id of an unknown container, such as a sandbox
	Others    []nodeplan.Ref // with a name that is not a container's
}

// Observed reports whether the cgroups have been observed.
func (g *Groups) Observed() bool { return g.Settings != nil }

// Observe sets the present cgroups. Locate must follow.
func (g *Groups) Observe(v View) {
	if v.Lacking == nil {
		v.Lacking = g.Lacking
	}
	g.View, g.NoBurst = v, v.BurstOff
	for _, s := range v.Settings {
		g.lacksBurst(s)
	}
}

func (g *Groups) lacksBurst(s cgroup.Settings) {
	if s.NoBurst {
		g.NoBurst = (&feature.UnsupportedError{Feature: feature.Burst}).Error()
	}
}

// Locate finds out whose the cgroups are. names are those of the containers by pod and id.
func (g *Groups) Locate(names map[ledger.PodID]map[string]string) {
	g.Pod, g.Container, g.Unknown, g.Others = map[ledger.PodID]string{}, map[nodeplan.Ref]string{}, nil, nil
	for _, pod := range g.Pods {
		id := ledger.PodID(pod.UID)
		g.Pod[id] = pod.Path
		for _, container := range pod.Containers {
			ref := nodeplan.Ref{Pod: id, Container: names[id][container.ID]}
			if ref.Container == "" {
				ref.Container = unknownMark + container.ID
				g.Unknown = append(g.Unknown, ref)
			}
			g.Container[ref] = container.Path
		}
		for _, other := range pod.Others {
			ref := nodeplan.Ref{Pod: id, Container: unknownMark + path.Base(other)}
			g.Others = append(g.Others, ref)
			g.Container[ref] = other
		}
	}
}

// Add adds the cgroup of a pod or container that was created since the last observation.
func (g *Groups) Add(path string, where kubepods.Place, settings cgroup.Settings) {
	g.Settings[path] = settings
	g.lacksBurst(settings)
	at := slices.IndexFunc(g.Pods, func(p kubepods.Pod) bool { return p.UID == where.PodUID })
	if at < 0 {
		at = len(g.Pods)
		g.Pods = append(g.Pods, kubepods.Pod{Path: path, UID: where.PodUID, Tier: where.Tier})
	}
	pod := &g.Pods[at]
	if where.Container == "" {
		pod.Path = path
		return
	}
	if !slices.ContainsFunc(pod.Containers, func(k kubepods.Container) bool { return k.Path == path }) {
		pod.Containers = append(pod.Containers, kubepods.Container{Path: path, ID: where.Container, Runtime: where.Runtime})
	}
}

// Exists reports whether there is a cgroup, which could be read.
func (g *Groups) Exists(path string) bool {
	_, ok := g.Settings[path]
	return path != "" && ok
}

// Held returns the CPUs that the threads of a cgroup may run on. On version 2 a cgroup without CPUs
// of its own has those of its parent.
func (g *Groups) Held(group string) cpuset.Set {
	if cpus := g.Settings[group].CPUs; !cpus.IsEmpty() {
		return cpus
	}
	if parent := path.Dir(group); g.Exists(parent) && g.Layout.CPUSet == cgroup.V2 {
		return g.Held(parent)
	}
	return g.Online
}

// Within returns the CPUs of a set that a cgroup may use: those of its tier, or all if its tier has
// none of them.
func (g *Groups) Within(group string, cpus cpuset.Set) cpuset.Set {
	tiers := nodeplan.Tiers()
	for i, tier := range slices.Backward(g.Tiers) { // parents first
		if strings.HasPrefix(group, tier+"/") {
			if some := cpus.Intersection(g.Allowed[tiers[i]]); !some.IsEmpty() {
				return some
			}
			break
		}
	}
	return cpus
}

// AbovePods returns the groups above the pods.
func (g *Groups) AbovePods() []string { return slices.Concat(g.Above, g.Tiers) }

// BatchTier returns the path of the tier of batch pods.
func (g *Groups) BatchTier() string {
	return g.Tiers[slices.Index(nodeplan.Tiers(), nodeplan.BestEffort)]
}

// Runs reports whether the pod with this id, as the kubelet uses it, had cgroups below its own when
// last observed.
func (g *Groups) Runs(id ledger.PodID) bool {
	return slices.ContainsFunc(g.Pods, func(p kubepods.Pod) bool {
		return ledger.PodID(p.UID) == id && len(p.Containers)+len(p.Others) > 0
	})
}

// ContainerIDs returns the ids of all containers that have cgroups.
func (g *Groups) ContainerIDs() map[string]bool {
	ids := map[string]bool{}
	for _, pod := range g.Pods {
		for _, container := range pod.Containers {
			ids[container.ID] = true
		}
	}
	return ids
}

// IsMonitor reports whether a cgroup is that of CRI-O's monitor.
func IsMonitor(group string) bool { return strings.Contains(path.Base(group), "conmon") }

// IsBehind reports whether a pod with these settings runs behind all others.
func IsBehind(s cgroup.Settings) bool { return s.Idle || s.BVT < 0 }

// LimitChanges returns what differs of quota, period and burst. Without a quota the period has no
// effect.
func LimitChanges(present cgroup.Settings, want bandwidth.Limits) (w cgroup.Wanted) {
	if want.Quota != present.Quota {
		w.Quota = &want.Quota
	}
	if want.Period != 0 && want.Quota != bandwidth.Unlimited && want.Period != present.Period {
		w.Period = &want.Period
	}
	if want.Burst != present.Burst && !present.NoBurst {
		w.Burst = &want.Burst
	}
	return w
}
