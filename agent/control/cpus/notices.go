package cpus

import (
	"cmp"
	"maps"
	"slices"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/agent/control/pods"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
)

// Notices adds which containers do not run on their CPUs, or are no partitions.
func (c *Controller) Notices(r *groups.Round, n *groups.Notices) {
	reportUnavailable(r, n)
	for _, ref := range c.Elsewhere(r) {
		pod := &r.Pods[slices.IndexFunc(r.Pods, func(s pods.Pod) bool { return s.Plan.ID == ref.Pod })]
		n.Problem(pod, groups.NotEnforced, "container %q of pod %s is not kept to its CPUs: nothing runs in a control group of its own, as with "+
			"gVisor; use another runtimeClassName", ref.Container, pod.Name())
	}
	for i := range r.Planned {
		l := &r.Planned[i]
		if s, ok := c.threads[l.Path]; ok && !s.cpus.IsEmpty() && !s.within.IsSubsetOf(s.cpus) && r.BindsCPUs() {
			n.Note(l.Pod, groups.Pinned, "threads of container %q of pod %s run on CPUs %s of its %s: it binds them itself, "+
				"or inherits this from the container runtime (CPUAffinity= of its service)", l.Ref.Container, l.Pod.Name(), s.cpus, s.within)
		}
	}
	if r.Binds {
		reportUnknownGroups(r, n)
	}
	if c.partition != "" {
		c.reportPartitions(r, n)
	}
}

// reportUnavailable adds the problems of the containers that do not run on all of their CPUs: one for
// each container with CPUs of its own, and one for all that lack the same shared CPUs.
func reportUnavailable(r *groups.Round, n *groups.Notices) {
	const why = "the others are offline, not in a group above, or in a partition of another group"
	shared := map[cpuset.Set]bool{} // effective CPUs
	for _, l := range unavailable(r) {
		s := r.Settings[l.Path]
		switch {
		case s.CPUs != r.Plan.Shared:
			n.Problem(l.Pod, groups.CPUsUnavailable, "container %q of pod %s has CPUs %s but runs on %s: %s", l.Ref.Container, l.Pod.Name(), s.CPUs, s.Effective, why)
		case !shared[s.Effective]:
			shared[s.Effective] = true
			n.Problem(nil, groups.CPUsUnavailable, "containers with the shared CPUs %s run on %s: %s", s.CPUs, s.Effective, why)
		}
	}
}

// reportUnknownGroups adds the notes about cgroups in pods whose names are not containers', except
// CRI-O's monitor.
func reportUnknownGroups(r *groups.Round, n *groups.Notices) {
	for _, in := range r.View.Pods {
		pod := pods.Find(r.Pods, ledger.PodID(in.UID))
		for _, other := range in.Others {
			s, has := r.Settings[other]
			switch {
			case groups.IsMonitor(other):
			case has:
				n.Note(pod, groups.UnknownGroup, "the name of cgroup %s is not a container's. Everything in it runs on CPUs %s; if containers of the pod "+
					"run in it, their own quota is not enforced", other, cmp.Or(s.CPUs.String(), "none"))
			default:
				n.Note(pod, groups.UnknownGroup, "the name of cgroup %s is not a container's. It has no CPUs of its own and uses those of its pod", other)
			}
		}
	}
}

// reportPartitions adds the notes about containers that could not become partitions.
func (c *Controller) reportPartitions(r *groups.Round, n *groups.Notices) {
	if group := obstacle(r.Groups); group != "" {
		n.Note(nil, groups.NotPartitioned, "no container can be a cpuset partition, because %s is one: "+
			"make that a member, or run the agent with --partition=none", group)
		return
	}
	for _, group := range slices.Sorted(maps.Keys(c.unpartitioned)) {
		if f := c.unpartitioned[group]; f.err != nil {
			n.Note(pods.Find(r.Pods, f.ref.Pod), groups.NotPartitioned, "CPUs %s of container %q of pod %s are not a cpuset partition, "+
				"so processes outside of Kubernetes may run on them: %v", f.cpus, f.ref.Container, pods.NameOf(r.Pods, f.ref.Pod), f.err)
		}
	}
}
