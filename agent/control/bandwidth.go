package control

import (
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/linux/cgroup"
)

// bandwidth sets quota, period and burst of containers and pods, and idle of pods.
func (c *Control) bandwidth(a *Actions, all []limited) {
	for _, l := range all {
		w := c.rest(l)
		if l.resizes {
			w = c.prepareResize(l)
		}
		if w != (cgroup.Wanted{}) {
			a.Rest[l.path] = w
		}
	}
	c.listBelow(a)
}

// listBelow adds the containers, with nothing wanted, of pods whose quota or period
// changes: what they hold limits in which steps that can be done (package cgroup).
func (c *Control) listBelow(a *Actions) {
	for _, p := range c.view.Pods {
		if w := a.Rest[p.Path]; w.Quota == nil && w.Period == nil {
			continue
		}
		for _, container := range p.Containers {
			if _, listed := a.Rest[container.Path]; !listed && c.exists(container.Path) {
				a.Rest[container.Path] = cgroup.Wanted{}
			}
		}
	}
}

// kubeletResizes reports whether the quota of a pod and its containers is the kubelet's
// to change now.
func (s *podState) kubeletResizes() bool { return s.resizing && len(s.plan.Claim.Containers) == 0 }

// prepareResize takes back what stands in the way of the quota that the kubelet is about to write:
// the kernel refuses one that is below the burst, and of a pod one that is below its
// container's, which may be raised.
func (c *Control) prepareResize(l limited) (w cgroup.Wanted) {
	present, before := c.view.Settings[l.path], c.beforeResize[l.path]
	if l.want.Burst < present.Burst {
		w.Burst = &l.want.Burst
	}
	if before.raised() && present.Quota == before.want.Quota {
		w.Quota = &before.Base.Quota
	}
	return w
}

// rememberPlanned remembers what was planned for groups before their resize.
func (c *Control) rememberPlanned(all []limited) {
	planned := make(map[string]limited, len(all))
	for _, l := range all {
		if before, ok := c.beforeResize[l.path]; ok && l.resizes {
			l = before
		}
		planned[l.path] = l
	}
	c.beforeResize = planned
}

// rest is what a group has otherwise than it should.
func (c *Control) rest(l limited) (w cgroup.Wanted) {
	present := c.view.Settings[l.path]
	if _, others := c.foreignOwned[l.path]; !others {
		w = bandwidthWanted(present, l.want)
	}
	if idle := l.want.Idle; l.isPod() && idle != present.Idle && !present.NoIdle {
		w.Idle = &idle
	}
	return w
}

// bandwidthWanted is what differs of quota, period and burst.
func bandwidthWanted(present cgroup.Settings, want nodeplan.Settings) (w cgroup.Wanted) {
	if quota := want.Quota; quota != present.Quota {
		w.Quota = &quota
	}
	if period := want.Period; period != 0 && want.Quota != bandwidth.Unlimited && period != present.Period {
		w.Period = &period
	}
	if burst := want.Burst; burst != present.Burst && !present.NoBurst {
		w.Burst = &burst
	}
	return w
}
