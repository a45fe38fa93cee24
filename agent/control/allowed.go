package control

import (
	"fmt"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
)

// allowed is what the groups above pods may use, which is not the agent's to change. The machine of
// all decisions has no other CPUs.
type allowed struct {
	machine *topology.Machine // with all CPUs, nil until SetMachine
	cpus    cpuset.Set        // of it that pods may use
	by      string            // the uppermost group that may not use all, or ""
	quota   string            // says which of them has a quota that throttles pods on CPUs of their own, or ""
	// tiers are the CPUs of the groups of tiers on version 1, by path. removed are those of them that
	// the kernel has taken away because they were offline, and does not give back.
	tiers, removed map[string]cpuset.Set
}

// allow brings the machine that decisions are made for up to date.
func (c *Control) allow() {
	a := &c.node.allowed
	if a.machine == nil {
		return
	}
	g := c.round.Groups
	online := a.machine.Online()
	a.cpus, a.by, a.quota = online, "", ""
	if g.Observed() {
		a.observe(g.Layout, g.Tiers, g.Settings)
		above := append(slices.Clone(g.Above), g.Tiers[0])
		var settings []cgroup.Settings
		for _, group := range above {
			settings = append(settings, a.of(g.Settings, group))
		}
		var by int
		if a.cpus, by = kubepods.Allowed(g.Layout, online, settings...); by >= 0 {
			a.by = above[by]
		}
		burstable := g.Tiers[slices.Index(nodeplan.Tiers(), nodeplan.Burstable)]
		above, settings = append(above, burstable, "/"), append(settings, g.Settings[burstable], g.Root)
		if by, quota := kubepods.Throttled(a.cpus.Len(), settings...); by >= 0 {
			a.quota = fmt.Sprintf("pods are throttled, also on CPUs of their own: group %s has a quota of %s; remove it (CPUQuota= of its unit, cpu.max)", above[by], quota)
		}
		g.Allowed = map[nodeplan.Tier]cpuset.Set{}
		for i, tier := range nodeplan.Tiers() { // without regard to partitions in other tiers
			g.Allowed[tier] = a.cpus
			if own := a.of(g.Settings, g.Tiers[i]).CPUs.Intersection(a.cpus); !own.IsEmpty() {
				g.Allowed[tier] = own
			}
		}
	}
	m := a.machine
	if g.Withheld = online.Difference(a.cpus); !g.Withheld.IsEmpty() {
		m = m.Without(g.Withheld)
	}
	if c.node.index != nil && c.node.index.Machine().SameCPUs(m) {
		return
	}
	c.node.index, c.round.Online = placement.NewIndex(m), m.Online()
	c.Pods.SetMachine(m)
}

// observe remembers which CPUs of tiers were taken away by the kernel, and not by an administrator.
func (a *allowed) observe(layout cgroup.Layout, tiers []string, settings map[string]cgroup.Settings) {
	if layout.CPUSet == cgroup.V2 {
		return
	}
	before, removed := a.tiers, a.removed
	if before == nil { // CPUs that are offline at the start were taken away before
		before = map[string]cpuset.Set{}
		for _, tier := range tiers {
			before[tier] = settings[tier].CPUs.Union(a.machine.Offline)
		}
	}
	a.tiers, a.removed = map[string]cpuset.Set{}, map[string]cpuset.Set{}
	for _, tier := range tiers {
		now := settings[tier].CPUs
		a.removed[tier] = before[tier].Difference(now).Intersection(removed[tier].Union(before[tier].Difference(a.machine.Online())))
		a.tiers[tier] = now.Union(a.removed[tier])
	}
}

// of returns the settings of a group, with the CPUs that it gets back when they are online.
func (a *allowed) of(settings map[string]cgroup.Settings, group string) cgroup.Settings {
	s := settings[group]
	s.CPUs = s.CPUs.Union(a.removed[group])
	return s
}

// note returns what the node says of CPUs that pods may not use, or "".
func (a *allowed) note() string {
	if a.by == "" {
		return ""
	}
	return fmt.Sprintf("pods use CPUs %s of %s: group %s may not use the others (its cpuset.cpus or AllowedCPUs=, or a partition elsewhere)",
		a.cpus, a.machine.Online(), a.by)
}
