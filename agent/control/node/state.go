package node

import (
	"path"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
)

// State is what a decision is made of: what is known of the node, and the plan that follows from it.
// Controllers read it, and do not keep it.
type State struct {
	Now     time.Time
	Machine *topology.Machine
	View    *View
	Groups  Groups
	Pods    *Pods
	Plan    Plan
	// Binds is set if the agent sets cpusets on this node.
	Binds bool
	// Period is the kubelet's.
	Period time.Duration
	// First is set in the first decision, which recovers the state of an earlier agent from the
	// cgroups.
	First bool
	// Classes are those that the plan follows, by pod.
	Classes map[ledger.PodID]nodeplan.Class
	// Limited are the cgroups of running pods and their containers that exist.
	Limited []Limited
	// Changed are the changes by other writers since the last round.
	Changed []Foreign
}

// Plan is a plan for the node and what the kubelet would set instead.
type Plan struct {
	nodeplan.Desired
	// Kubelet is the bandwidth that the kubelet would give containers and, with Container == "",
	// pods.
	Kubelet map[nodeplan.Ref]bandwidth.Limits
}

// NewPlan returns the plan d, which was made from s.
func NewPlan(s nodeplan.State, d nodeplan.Desired) Plan {
	kubelet := map[nodeplan.Ref]bandwidth.Limits{}
	for _, p := range nodeplan.Kubelet(s).Pods {
		kubelet[nodeplan.Ref{Pod: p.ID}] = p.Limits
		for _, c := range p.Containers {
			kubelet[nodeplan.Ref{Pod: p.ID, Container: c.Name}] = c.Limits
		}
	}
	return Plan{d, kubelet}
}

// Container returns the planned settings of a container, or nil.
func (p *Plan) Container(ref nodeplan.Ref) *nodeplan.ContainerSettings {
	for i := range p.Pods {
		for j := range p.Pods[i].Containers {
			if c := &p.Pods[i].Containers[j]; p.Pods[i].ID == ref.Pod && c.Name == ref.Container {
				return c
			}
		}
	}
	return nil
}

// SharedCPUs returns the CPUs that containers without CPUs of their own run on.
func (s *State) SharedCPUs() cpuset.Set {
	if !s.Binds {
		return s.Machine.Online()
	}
	return s.Plan.Shared
}

// Held returns the CPUs that the threads of a cgroup may run on. On version 2 a cgroup without CPUs
// of its own has those of its parent.
func (s *State) Held(group string) cpuset.Set {
	if cpus := s.View.Settings[group].CPUs; !cpus.IsEmpty() {
		return cpus
	}
	if parent := path.Dir(group); s.View.Exists(parent) && s.View.Layout.CPUSet == cgroup.V2 {
		return s.Held(parent)
	}
	return s.Machine.Online() // the parent of all tiers is never narrowed
}

// Limited is a cgroup of a pod or container whose bandwidth is planned.
type Limited struct {
	Ref             nodeplan.Ref // Container is "" for the pod's own cgroup
	Namespace, Name string       // of the pod
	Path            string
	nodeplan.Raising
	// Present is the bandwidth of the cgroup, and Raise is the zero value if the quota is not
	// raised. Both are set in the status that follows from a decision only.
	Present bandwidth.Limits
	Raise   Raise
	// PodPath is the pod's own cgroup.
	PodPath string
	Want    bandwidth.Limits
	Kubelet bandwidth.Limits // what the kubelet would set
	// Idle, BVT and Separate are those of nodeplan.PodSettings and nodeplan.Settings.
	Idle     bool // of pods only
	BVT      int
	Separate bool // of pods only
	// Resizing is set while the quota is left to the kubelet, which is changing it: of all cgroups of
	// a pod without CPUs of its own, unless the quota of one of them must be restored.
	Resizing bool
}

// Raise is a quota above the limit.
type Raise struct {
	Quota time.Duration
	Since time.Time
}

// IsPod reports whether the cgroup is a pod's own.
func (l *Limited) IsPod() bool { return l.Ref.Container == "" }

// FindLimited returns the cgroups of running pods and their containers that exist.
func (s *State) FindLimited() (all []Limited) {
	for i := range s.Plan.Pods {
		p := &s.Plan.Pods[i]
		pod, first := s.Pods.Of(p.ID), len(all)
		if api.HasEnded(pod.Object) {
			continue
		}
		add := func(container, path string, want nodeplan.Settings, raising nodeplan.Raising) {
			if s.View.Exists(path) {
				ref := nodeplan.Ref{Pod: p.ID, Container: container}
				all = append(all, Limited{Ref: ref, Namespace: pod.Object.Namespace, Name: pod.Object.Name, Path: path, Raising: raising,
					PodPath: s.Groups.Pods[p.ID], Want: want.Limits, Idle: want.Idle, BVT: want.BVT, Kubelet: s.Plan.Kubelet[ref], Separate: p.Separate})
			}
		}
		add("", s.Groups.Pods[p.ID], p.Settings, p.Raising)
		for j := range p.Containers {
			container := &p.Containers[j]
			add(container.Name, s.Groups.Containers[nodeplan.Ref{Pod: p.ID, Container: container.Name}], container.Settings, container.Raising)
		}
		if pod.Resizing && len(pod.Plan.Claim.Containers) == 0 && !s.First && !slices.ContainsFunc(all[first:], s.isLifted) {
			for i := range all[first:] {
				all[first+i].Resizing = true
			}
		}
	}
	return all
}

// isLifted reports whether a cgroup has no quota and is to have one: its pod had exclusive CPUs.
func (s *State) isLifted(l Limited) bool {
	return l.Want.Quota != bandwidth.Unlimited && s.View.Settings[l.Path].Quota == bandwidth.Unlimited
}

// Changes returns what differs of quota, period and burst. Without a quota the period has no
// effect.
func Changes(present cgroup.Settings, want bandwidth.Limits) (w cgroup.Wanted) {
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
