package groups

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/agent/control/pods"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/qos"
)

// Round is what the controllers decide from.
type Round struct {
	*Groups
	Now time.Time
	// First is set until the first decision was made, which recovers the state of an earlier agent
	// from the cgroups.
	First  bool
	Failed bool // a cgroup could not be written in the last round
	// Changed are the cgroups in which another program has changed quota, period or burst since then; true
	// if it was not the burst alone.
	Changed map[string]bool
	Binds   bool          // the agent sets cpusets on this node
	Period  time.Duration // of quotas that the kubelet sets
	// BindingOff is why the agent sets no cpusets, in words for users, or "".
	BindingOff string
	Index      *placement.Index // the machine without the CPUs that pods may not use
	Books      ledger.Config    // what the books of the node reserve
	Pods       []pods.Pod
	// Claims are the CPUs that pods have, of those that have some.
	Claims map[types.UID]ledger.Claim
	// Unlisted are the CPUs of pods that run, and that the API server's list lacks.
	Unlisted map[ledger.PodID]cpuset.Set
	// Plan is the plan, and Kubelet is what the kubelet would set. Invariant: both have the same pods,
	// in the order of Pods, and the same containers.
	Plan, Kubelet *nodeplan.Desired
	Planned       []Planned
	// Elsewhere are the containers with CPUs of their own that do not run in cgroups of their own.
	Elsewhere []nodeplan.Ref
}

// SetPlan makes a plan of the state, whose pods are those of the round.
func (r *Round) SetPlan(state nodeplan.State, plan func(nodeplan.State) nodeplan.Desired) {
	d, kubelet := plan(state), nodeplan.Kubelet(state)
	r.Plan, r.Kubelet = &d, &kubelet
	r.Planned = make([]Planned, 0, len(r.Pod)+len(r.Container))
	for i := range d.Pods {
		p, s := &d.Pods[i], &r.Pods[i]
		l := Planned{Ref: nodeplan.Ref{Pod: p.ID}, Path: r.Pod[p.ID], PodPath: r.Pod[p.ID], Pod: s, Class: state.Pods[i].Class,
			Separate: p.Separate, Want: &p.Settings, Raising: &p.Raising, Kubelet: kubelet.Pods[i].Limits}
		if r.Exists(l.Path) {
			r.Planned = append(r.Planned, l)
		}
		for j := range p.Containers {
			container := &p.Containers[j]
			l.Ref.Container = container.Name
			l.Path = r.Container[l.Ref]
			l.Want, l.Raising, l.Kubelet = &container.Settings, &container.Raising, kubelet.Pods[i].Containers[j].Limits
			if r.Exists(l.Path) {
				r.Planned = append(r.Planned, l)
			}
		}
	}
}

// Counts reports whether the books count a pod. One that the kubelet has not admitted, so that it has no
// group, does not count unless it has CPUs: it may name this node and request any number.
func (r *Round) Counts(id ledger.PodID, claim *ledger.Claim) bool {
	return len(claim.Containers) > 0 || r.Exists(r.Pod[id])
}

// BindsCPUs reports whether the plan needs cpusets.
func (r *Round) BindsCPUs() bool { return r.Binds && r.Plan.Binds() }

// RunsElsewhere reports whether a container, or one of a pod, does not run on the CPUs that are planned:
// its cgroup can use none of these, or it runs in another one.
func (r *Round) RunsElsewhere(p *Planned) bool {
	s := r.Settings[p.Path]
	return !s.CPUs.IsEmpty() && !s.Effective.IsSubsetOf(s.CPUs) ||
		slices.ContainsFunc(r.Elsewhere, func(ref nodeplan.Ref) bool { return ref == p.Ref || p.IsPod() && ref.Pod == p.Ref.Pod })
}

// Limits reports whether anything else is planned that the kubelet would not set, or a quota may be
// raised.
func (r *Round) Limits() bool {
	tier := qos.BestEffort
	return r.Plan.Tier(tier).Limits != r.Kubelet.Tier(tier).Limits || slices.ContainsFunc(r.Planned, func(l Planned) bool {
		return l.Want.Limits != l.Kubelet || l.Want.Idle || l.Want.BVT != 0 || l.Raising.Policy.Mode != ""
	})
}

// SharedCPUs returns the CPUs that containers without CPUs of their own run on.
func (r *Round) SharedCPUs() cpuset.Set {
	if !r.Binds {
		return r.Online
	}
	return r.Plan.Shared
}

// PlanOf returns the planned settings of a container, or nil if it is unknown, and the bandwidth
// that the kubelet would set.
func (r *Round) PlanOf(ref nodeplan.Ref) (planned *nodeplan.ContainerSettings, kubelet bandwidth.Limits) {
	for i := range r.Plan.Pods {
		p := &r.Plan.Pods[i]
		for j := range p.Containers {
			if p.ID == ref.Pod && p.Containers[j].Name == ref.Container {
				return &p.Containers[j], r.Kubelet.Pods[i].Containers[j].Limits
			}
		}
	}
	return nil, kubelet
}

// Planned is an existing cgroup of a running pod or of one of its containers, and what is planned
// for it.
type Planned struct {
	Ref           nodeplan.Ref // Container is "" for the pod's own cgroup
	Path, PodPath string
	Pod           *pods.Pod
	Class         qos.Class // that the plan follows
	Separate      bool      // see nodeplan.PodSettings
	// Want is the plan, Raising is a part of it, and Kubelet is what the kubelet would set.
	Want    *nodeplan.Settings
	Raising *nodeplan.Raising
	Kubelet bandwidth.Limits
}

// IsPod reports whether the cgroup is a pod's own.
func (p *Planned) IsPod() bool { return p.Ref.Container == "" }

// IsBatch reports whether the cgroup is that of a batch pod of QoS class BestEffort.
func (p *Planned) IsBatch() bool {
	return p.IsPod() && p.Class == qos.BE && p.Pod.Plan.Tier == qos.BestEffort
}

// ByKubelet reports whether a cgroup has the bandwidth that the kubelet sets, and is to have none: its pod has CPUs
// of its own and was resized.
func (r *Round) ByKubelet(l *Planned) bool {
	present := r.Settings[l.Path]
	return l.Want.Quota == bandwidth.Unlimited && present.Quota == l.Kubelet.Quota && present.Period == l.Kubelet.Period
}
