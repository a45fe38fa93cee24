package quota

import (
	"pinfold.dev/pinfold/agent/control/node"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/linux/cgroup"
)

// leaveForeign applies [OwnerOther]: it decides which cgroups' bandwidth is left to other writers
// and returns the changes that are newly left in force. A cgroup is the agent's again when its
// limit has changed.
func (c *Controller) leaveForeign(s *node.State) (left []node.Foreign) {
	if c.owner != OwnerOther {
		return nil
	}
	changed := map[string][]node.Foreign{}
	for _, f := range s.Changed {
		if f.Field == node.FieldQuota || f.Field == node.FieldPeriod || f.Field == node.FieldBurst {
			f.Left = true
			changed[f.Path] = append(changed[f.Path], f)
		}
	}
	owned := map[string]bandwidth.Limits{}
	for i := range s.Limited {
		l := &s.Limited[i]
		present, foreign := s.View.Settings[l.Path], changed[l.Path]
		if s.First && !mayBeOurs(l, present) {
			foreign = []node.Foreign{{Path: l.Path, Field: node.FieldQuota, Ours: node.QuotaText(l.Want.Quota), Theirs: node.QuotaText(present.Quota), Left: true}}
		}
		limit := l.Base.WithoutBurst()
		was, owns := c.foreign[l.Path]
		switch {
		case owns && was == limit:
			owned[l.Path] = limit
		case len(foreign) > 0 && !l.Resizing && node.Changes(present, l.Want) != (cgroup.Wanted{}):
			owned[l.Path] = limit
			left = append(left, foreign...)
		}
	}
	c.foreign = owned
	return left
}

// mayBeOurs reports whether the kubelet or an earlier agent may have set the quota and period that
// the agent finds at its start, including a raised quota, and a quota that was removed from a pod
// which had exclusive CPUs then.
func mayBeOurs(l *node.Limited, present cgroup.Settings) bool {
	if present.Quota == bandwidth.Unlimited {
		return true
	}
	for _, b := range []bandwidth.Limits{l.Want, l.Kubelet} {
		if b.Quota == present.Quota && b.Period == present.Period {
			return true
		}
	}
	return present.Period == l.Base.Period && present.Quota >= l.Base.Quota && present.Quota <= l.Highest
}
