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

// effectiveCPUs checks on version 2 that pods may run on all CPUs, and containers on all that they
// have: it accepts CPUs that a group cannot use.
func (x *examination) effectiveCPUs(pods []kubepods.Pod) {
	const check, where = "CPUs of pods", "look at cpuset.cpus.effective of the groups above, and at cpuset.cpus.partition of others"
	if x.groups.Layout().CPUSet != cgroup.V2 {
		return
	}
	all := x.naming.Tier(nodeplan.Guaranteed)
	tier, err := x.groups.ReadParts(all, cgroup.Parts{Effective: true, Partition: true})
	m, _, errMachine := x.topology()
	if err != nil || errMachine != nil {
		return // other checks report it
	}
	online := m.Online()
	given := online.Difference(tier.Effective).Intersection(tier.Exclusive)
	switch lacks := online.Difference(tier.Effective).Difference(given); {
	case tier.Partition.Is():
		x.add(check, Note, fmt.Sprintf("%s is a cpuset partition", all), "make it a member if the agent is to run with --partition")
	case !lacks.IsEmpty():
		x.add(check, Problem, fmt.Sprintf("%s may not run on CPUs %s", all, lacks), where)
	case given.IsEmpty():
		x.add(check, OK, "all that are online", "")
	default:
		x.add(check, OK, fmt.Sprintf("all that are online; partitions have %s", given), "")
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
		x.add("CPUs of containers", Problem, fmt.Sprintf("%s cannot use all CPUs that they have, such as %s", quantity.Count(n, "container"), first), where)
	}
}
