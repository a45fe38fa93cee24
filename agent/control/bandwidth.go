package control

import (
	"slices"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
)

// Limited is a cgroup of a pod or container whose bandwidth is planned.
type Limited struct {
	Ref             nodeplan.Ref // Container is "" for the pod's own cgroup
	Namespace, Name string       // of the pod
	Path            string
	nodeplan.Raising
	// Present is the bandwidth of the cgroup, and Raise is the zero value if the quota is not
	// raised. Both are set in a [Status] only.
	Present bandwidth.Limits
	Raise   Raise

	podPath string
	want    bandwidth.Limits
	idle    bool             // wanted, of pods only
	bvt     int              // wanted
	kubelet bandwidth.Limits // what the kubelet would set
	// resizing is set while the quota is left to the kubelet, which is changing it: of all cgroups of
	// a pod without CPUs of its own, unless the quota of one of them must be restored.
	resizing bool
	separate bool // see nodeplan.PodSettings, of pods only
}

func (l *Limited) isPod() bool { return l.Ref.Container == "" }

// raised reports whether the wanted quota is above that of the limit.
func (l *Limited) raised() bool { return l.want.Quota > l.Base.Quota }

// limitedGroups returns the cgroups of running pods and their containers that exist.
func (c *Control) limitedGroups(d nodeplan.Desired, g groups) (all []Limited) {
	for i := range d.Pods {
		p := &d.Pods[i]
		s, first := c.pod(p.ID), len(all)
		if api.HasEnded(s.object) {
			continue
		}
		add := func(container, path string, want nodeplan.Settings, raising nodeplan.Raising) {
			if c.exists(path) {
				ref := nodeplan.Ref{Pod: p.ID, Container: container}
				all = append(all, Limited{Ref: ref, Namespace: s.object.Namespace, Name: s.object.Name, Path: path, Raising: raising,
					podPath: g.pods[p.ID], want: want.Limits, idle: want.Idle, bvt: want.BVT, kubelet: c.plan.kubelet[ref], separate: p.Separate})
			}
		}
		add("", g.pods[p.ID], p.Settings, p.Raising)
		for j := range p.Containers {
			container := &p.Containers[j]
			add(container.Name, g.containers[nodeplan.Ref{Pod: p.ID, Container: container.Name}], container.Settings, container.Raising)
		}
		if s.resizing && len(s.plan.Claim.Containers) == 0 && c.recovered && !slices.ContainsFunc(all[first:], c.isLifted) {
			for i := range all[first:] {
				all[first+i].resizing = true
			}
		}
	}
	return all
}

// isLifted reports whether a cgroup has no quota and is to have one: its pod had exclusive CPUs.
func (c *Control) isLifted(l Limited) bool {
	return l.want.Quota != bandwidth.Unlimited && c.view.Settings[l.Path].Quota == bandwidth.Unlimited
}

// setBandwidth adds the changes of quota, period, burst, cpu.idle and cpu.bvt_warp_ns.
func (c *Control) setBandwidth(a *Decision, all []Limited) {
	for i := range all {
		l := &all[i]
		if w := c.bandwidthChanges(l); w != (cgroup.Wanted{}) {
			a.Bandwidth[l.Path] = w
		}
	}
	// A pod's quota or period can change only in steps that its containers' bandwidth allows.
	// Listing them, with nothing wanted, lets package cgroup find these steps.
	for _, p := range c.view.Pods {
		if w := a.Bandwidth[p.Path]; w.Quota == nil && w.Period == nil {
			continue
		}
		for _, container := range p.Containers {
			if _, listed := a.Bandwidth[container.Path]; !listed && c.exists(container.Path) {
				a.Bandwidth[container.Path] = cgroup.Wanted{}
			}
		}
	}
}

// prepareResize undoes what would make the kernel reject the quota that the kubelet is about to
// write: a burst above that quota, which is for the kubelet's period, and a raised quota of a
// container, which its pod's quota must not be below.
func (c *Control) prepareResize(l *Limited) (w cgroup.Wanted) {
	present, before := c.view.Settings[l.Path], c.beforeResize[l.Path]
	if most := min(l.want.Burst, max(0, l.kubelet.Quota)); most < present.Burst {
		w.Burst = &most
	}
	if before.raised() && present.Quota == before.want.Quota {
		w.Quota = &before.Base.Quota
	}
	return w
}

// rememberPlanned remembers the plan of each cgroup, and during a resize the plan before it.
func (c *Control) rememberPlanned(all []Limited) {
	planned := make(map[string]Limited, len(all))
	for _, l := range all {
		if before, ok := c.beforeResize[l.Path]; ok && l.resizing {
			l = before
		}
		planned[l.Path] = l
	}
	c.beforeResize = planned
}

// bandwidthChanges returns the settings of l that differ from the plan.
func (c *Control) bandwidthChanges(l *Limited) (w cgroup.Wanted) {
	present := c.view.Settings[l.Path]
	if _, foreign := c.foreignOwned[l.Path]; l.resizing {
		w = c.prepareResize(l)
	} else if !foreign {
		w = limitChanges(present, l.want)
	}
	if idle := l.idle; l.isPod() && idle != present.Idle && !present.NoIdle {
		if w.Idle = &idle; !idle {
			w.Weight = new(c.kubeletsWeight(l.Ref.Pod)) // clearing idle sets the default weight
		}
	}
	if bvt := l.bvt; bvt != present.BVT && !present.NoBVT {
		w.BVT = &bvt
	}
	return w
}

// kubeletsWeight returns the weight that the kubelet gives to the cgroup of a pod.
func (c *Control) kubeletsWeight(id ledger.PodID) cgroup.Weight {
	request := uint64(api.EffectiveRequest(c.pod(id).object))
	return kubepods.PodWeight(c.view.Layout.CPU, request*1024/1000)
}

// limitChanges returns what differs of quota, period and burst. Without a quota the period has no
// effect.
func limitChanges(present cgroup.Settings, want bandwidth.Limits) (w cgroup.Wanted) {
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
