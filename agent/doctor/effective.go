package doctor

import (
	"fmt"

	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
)

// partitions checks whether the agent can run with --partition.
func (x *examination) partitions() {
	if err := x.groups.CheckPartitions(); err != nil {
		x.add("cpuset partitions", Note, err.Error(), "nothing, unless the agent is to run with --partition")
		return
	}
	x.add("cpuset partitions", OK, "the kernel has them", "")
}

// quotaAbove checks the quotas of groups above pods, which have some CPUs.
func (x *examination) quotaAbove(groups []string, cpus int) {
	groups = append(groups, x.naming.Tier(nodeplan.Burstable), "/") // which has one if the node runs in a container
	settings := make([]cgroup.Settings, len(groups))
	for i, group := range groups {
		if s, err := x.groups.ReadParts(group, cgroup.Parts{Bandwidth: true}); err == nil { // else other checks report it
			settings[i] = s
		}
	}
	if by, quota := kubepods.Throttled(cpus, settings...); by >= 0 {
		x.add("quota of all pods", Problem, fmt.Sprintf("group %s has a quota of %s, which throttles pods also on CPUs of their own", groups[by], quota),
			"remove it: CPUQuota= of its unit (systemctl cat), or cpu.max; where the node is a container, the quota of that")
	}
}

// effectiveCPUs checks that pods may run on all CPUs, and containers on all that they have: version 2
// accepts CPUs that a group cannot use.
func (x *examination) effectiveCPUs(pods []kubepods.Pod) {
	const check = "CPUs of pods"
	all, layout := x.naming.Tier(nodeplan.Guaranteed), x.groups.Layout()
	paths, settings := x.naming.Above(), []cgroup.Settings{}
	for _, group := range paths {
		s, err := x.groups.ReadParts(group, cgroup.Parts{CPUs: true, Effective: layout.CPUSet == cgroup.V2, Partition: true})
		if err != nil {
			return // other checks report it
		}
		settings = append(settings, s)
	}
	m, _, err := x.topology()
	if err != nil {
		return
	}
	allowed, by := kubepods.Allowed(layout, m.Online(), settings...)
	switch {
	case by >= 0:
		x.add(check, Note, fmt.Sprintf("pods use CPUs %s of %s: group %s may not use the others", allowed, m.Online(), paths[by]),
			"nothing, if that is meant; else look at its cpuset.cpus and AllowedCPUs=, and at cpuset.cpus.partition of others")
	case settings[len(settings)-1].Partition.Is():
		x.add(check, Note, fmt.Sprintf("%s is a cpuset partition", all), "make it a member if the agent is to run with --partition")
	default:
		x.add(check, OK, "all that are online", "")
	}
	x.quotaAbove(paths, allowed.Len())
	if layout.CPUSet != cgroup.V2 {
		return
	}
	n, first := 0, ""
	for _, p := range pods {
		for _, c := range p.Containers {
			s, err := x.groups.ReadParts(c.Path, cgroup.Parts{CPUs: true, Effective: true})
			if err != nil || s.CPUs.IsEmpty() || s.Effective == s.CPUs {
				continue // it has ended, has the CPUs of its pod, or has what it was given
			}
			if n++; n == 1 {
				first = fmt.Sprintf("%s has %s and runs on %s", c.Path, s.CPUs, s.Effective)
			}
		}
	}
	if n > 0 {
		x.add("CPUs of containers", Problem, fmt.Sprintf("%s cannot use all CPUs that they have, such as %s", quantity.Count(n, "container"), first),
			"look at cpuset.cpus.effective of the groups above, and at cpuset.cpus.partition of others")
	}
}
