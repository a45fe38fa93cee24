package kubepods

import (
	"path"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Allowed returns the CPUs that what is in the last of some groups may use, each in the one before it,
// and the position of the first that may not use all of cpus, or -1. Settings that were not read
// allow everything. CPUs that partitions in a group have exclusively are allowed.
func Allowed(layout cgroup.Layout, cpus cpuset.Set, groups ...cgroup.Settings) (allowed cpuset.Set, by int) {
	allowed, by = cpus, -1
	for i, s := range groups {
		may := s.CPUs
		if layout.CPUSet == cgroup.V2 {
			granted := s.Exclusive
			if !s.CPUs.IsEmpty() {
				granted = granted.Intersection(s.CPUs)
			}
			may = s.Effective.Union(granted)
		}
		less := allowed.Intersection(may)
		if less.IsEmpty() || less == allowed {
			continue // without CPUs, a group has those of its parent
		}
		if allowed = less; by < 0 {
			by = i
		}
	}
	return allowed, by
}

// Throttled returns which of some groups, each in the one before it, has the least quota, and that
// quota, if what is in the last of them is throttled before it uses a number of CPUs. Otherwise by is
// -1. Quotas that were not read throttle nothing.
func Throttled(cpus int, groups ...cgroup.Settings) (by int, quota quantity.CPUs) {
	by, quota = -1, quantity.CPUs(cpus)
	for i, s := range groups {
		if has, limited := s.Limits.CPUs(); limited && s.Period > 0 && quantity.CPUs(has) < quota {
			by, quota = i, quantity.CPUs(has)
		}
	}
	return by, quota
}

// Above returns the groups from below the root down to that of all pods.
func (n Naming) Above() (groups []string) {
	for group := n.Tier(nodeplan.Guaranteed); group != "/"; group = path.Dir(group) {
		groups = append(groups, group)
	}
	slices.Reverse(groups)
	return groups
}
