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
		moreThanBurst, foreign := changed[l.Path]
		foreign = foreign && (!moreThanBurst || !isKubelets(present, l)) || r.First && !mayBeOurs(present, l)
		limit := l.Raising.Base.WithoutBurst()
		was, owns := c.owned[l.Path]
		switch {
		case owns && was == limit:
			owned[l.Path] = limit
		case foreign && !l.resizing && groups.LimitChanges(present, l.Want.Limits) != (cgroup.Wanted{}):
			owned[l.Path] = limit
			left = append(left, l.Planned)
		}
	}
	c.owned = owned
	return left
}

// isKubelets reports whether a cgroup has the quota and period that the kubelet sets, as at a resize.
func isKubelets(present cgroup.Settings, l group) bool {
	return l.Kubelet.Quota == present.Quota && l.Kubelet.Period == present.Period
}

// mayBeOurs reports whether the kubelet or an earlier agent may have set the quota and period that
// the agent finds at its start, including a raised quota, and a quota that was removed from a pod
// which had exclusive CPUs then.
func mayBeOurs(present cgroup.Settings, l group) bool {
	if present.Quota == bandwidth.Unlimited {
		return true
	}
	if isKubelets(present, l) || l.Want.Quota == present.Quota && l.Want.Period == present.Period {
		return true
	}
	return present.Period == l.Raising.Base.Period && present.Quota >= l.Raising.Base.Quota && present.Quota <= l.Raising.Highest
}
