package control

import (
	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
)

// alignInner adds to a decision what the inner cgroups of containers ([kubepods.Inner]) need, so
// that they do not restrict the containers further than the containers' own cgroups: the same quota,
// period and burst, and no CPUs of their own.
//
// Nothing else depends on inner cgroups. A tenant can make one that holds none of the container's
// processes, so every bound is in the container's own cgroup.
func (d *Decision) alignInner(r *groups.Round) {
	for _, container := range r.Inner() {
		inner, outer := r.Settings[container.Inner], r.Settings[container.Path]
		if outer.Period != 0 { // the bandwidth was read
			target := cgroup.Change{Present: outer, Wanted: d.Bandwidth[container.Path]}.Target()
			if w := groups.LimitChanges(inner, target.Limits); w != (cgroup.Wanted{}) {
				d.Bandwidth[container.Inner] = w
			}
		}
		if r.Binds && r.Layout.CPUSet == cgroup.V2 && !inner.CPUs.IsEmpty() { // on version 1 they follow
			d.Widen[container.Inner] = cgroup.Wanted{CPUs: &cpuset.Set{}}
		}
	}
}
