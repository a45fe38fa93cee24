package control

import (
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/linux/cgroup"
)

// findForeignOwned finds the groups whose bandwidth is somebody else's from now on, where they
// own it, and returns what was changed there. It takes back what others have no longer:
// the group has gone, or its limit has changed.
func (c *Control) findForeignOwned(all []limited) (found []Foreign) {
	if c.config.QuotaOwner != OwnerOther {
		return nil
	}
	changed := map[string][]Foreign{}
	for _, f := range c.changed {
		if f.Field == FieldQuota || f.Field == FieldPeriod || f.Field == FieldBurst {
			f.Left = true
			changed[f.Path] = append(changed[f.Path], f)
		}
	}
	owned := map[string]bandwidth.Limits{}
	for _, l := range all {
		present, foreign := c.view.Settings[l.path], changed[l.path]
		if !c.restored && !l.mayBeOurs(present) {
			foreign = []Foreign{{Path: l.path, Field: FieldQuota, Ours: durationText(l.want.Quota), Theirs: quotaText(present), Left: true}}
		}
		was, others := c.foreignOwned[l.path]
		switch {
		case others && was == l.Base.WithoutBurst():
			owned[l.path] = was
		case len(foreign) > 0 && !l.resizes && bandwidthWanted(present, l.want) != (cgroup.Wanted{}):
			owned[l.path] = l.Base.WithoutBurst()
			found = append(found, foreign...)
		}
	}
	c.foreignOwned = owned
	return found
}

// mayBeOurs reports whether quota and period that an agent finds at its start are what
// the kubelet or an agent before it has set, a raised quota included.
func (l *limited) mayBeOurs(present cgroup.Settings) bool {
	for _, b := range []bandwidth.Limits{l.want.Limits, l.kubelets} {
		if b.Quota == present.Quota && (b.Quota == bandwidth.Unlimited || b.Period == present.Period) {
			return true
		}
	}
	return present.Period == l.Base.Period && present.Quota >= l.Base.Quota && present.Quota <= l.Highest
}
