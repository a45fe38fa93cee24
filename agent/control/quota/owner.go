package quota

import (
	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/linux/cgroup"
)

// leavesTo reports whether the bandwidth of a cgroup is left to another program.
func (c *Controller) leavesTo(path string) bool {
	_, owned := c.owned[path]
	return owned
}

// leave decides which cgroups' bandwidth is left to other programs, and returns those that are
// newly left. A cgroup is the agent's again when its limit has changed.
func (c *Controller) leave(r *groups.Round, changed map[string]bool) (left []*groups.Planned) {
	if !c.leaves {
		return nil
	}
	owned := map[string]bandwidth.Limits{}
	for _, l := range c.planned {
		present := r.Settings[l.Path]
		foreign := changed[l.Path] || r.First && !mayBeOurs(present, l)
		limit := l.Raising.Base.WithoutBurst()
		was, owns := c.owned[l.Path]
		switch {
		case owns && was == limit:
			owned[l.Path] = limit
		case foreign && !l.resizing && !r.ByKubelet(l.Planned) && groups.LimitChanges(present, l.Want.Limits) != (cgroup.Wanted{}):
			owned[l.Path] = limit
			left = append(left, l.Planned)
		}
	}
	c.owned = owned
	return left
}

// mayBeOurs reports whether the kubelet or an earlier agent may have set the quota and period that
// the agent finds at its start, including a raised quota, and a quota that was removed from a pod
// which had exclusive CPUs then.
func mayBeOurs(present cgroup.Settings, l group) bool {
	if present.Quota == bandwidth.Unlimited {
		return true
	}
	for _, b := range []bandwidth.Limits{l.Want.Limits, l.Kubelet} {
		if b.Quota == present.Quota && b.Period == present.Period {
			return true
		}
	}
	return present.Period == l.Raising.Base.Period && present.Quota >= l.Raising.Base.Quota && present.Quota <= l.Raising.Highest
}
