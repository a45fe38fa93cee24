package ledger

import (
	"cmp"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// entry is one claim with everything that follows from the claim and the machine alone, regardless
// of other claims, except for whether it has lost.
type entry struct {
	claim Claim
	lost  bool
	// static are the CPUs that its static containers claim.
	static cpuset.Set
	// problems make the claim lose regardless of other claims.
	problems []Problem
	// confined are the confinements of its static-burst containers.
	confined []confinement
	// ownRequest is what its Containers request of the shared CPUs if it loses.
	ownRequest MilliCPU
	// offlineRequest is what static containers without an online CPU request of the shared CPUs.
	// Other static containers request nothing while the claim holds.
	offlineRequest MilliCPU
}

// confinement sums up the containers that are confined to the same NUMA nodes.
type confinement struct {
	cpus   cpuset.Set // the online CPUs of the nodes
	nodes  []int      // the nodes that have CPUs, as positions in site.nodes, ascending
	demand MilliCPU   // requested of the shared CPUs among them
	// amounts are what each node serves of the demand; see account.split.
	amounts []MilliCPU
}

// fill sets an empty entry to a claim.
func (e *entry) fill(s *site, claim Claim) {
	e.claim = claim
	if len(claim.Containers) == 0 {
		return
	}
	var own, offlineRequest Phases[MilliCPU]
	var earlier InUse
	for i := range claim.Containers {
		c := &claim.Containers[i]
		request := c.Request.bounded()
		own.Add(c.Role, request)
		switch c.Policy {
		case placement.Static:
			if len(e.problems) < mostProblems {
				e.problems = append(e.problems, s.staticProblems(claim.Containers, i, earlier.With(c.Role))...)
			}
			earlier.Add(c.Role, c.CPUs)
			e.static = e.static.Union(c.CPUs)
			if !c.CPUs.Intersects(s.online) {
				offlineRequest.Add(c.Role, request)
			}
		case placement.StaticBurst:
			e.problems = append(e.problems, s.confinementProblems(c)...)
		default:
			e.problems = append(e.problems, Problem{Kind: PolicyUnknown, Container: c.Name, Policy: c.Policy})
		}
	}
	e.ownRequest, e.offlineRequest = own.Largest(), offlineRequest.Largest()
	e.problems = e.problems[:min(len(e.problems), mostProblems)]
	if len(e.problems) == 0 {
		e.confined = s.confinements(claim.Containers)
	}
}

// staticProblems returns what is wrong with the CPUs of containers[at], beside which earlier ones
// use some CPUs.
func (s *site) staticProblems(containers []ContainerClaim, at int, inUse cpuset.Set) (found []Problem) {
	c := &containers[at]
	if c.CPUs.IsEmpty() {
		return []Problem{{Kind: NoCPUs, Container: c.Name}}
	}
	report := func(kind ProblemKind, cpus cpuset.Set, other string) {
		if !cpus.IsEmpty() {
			found = append(found, Problem{Kind: kind, Container: c.Name, CPUs: cpus, HolderContainer: other})
		}
	}
	report(CPUUnknown, c.CPUs.Difference(s.online).Difference(s.offline), "")
	report(CPUReserved, c.CPUs.Intersection(s.config.ReservedCPUs), "")
	if !c.CPUs.Intersects(inUse) {
		return found
	}
	for i := range containers[:at] {
		other := &containers[i]
		if other.Policy == placement.Static && other.Role.RunsWith(c.Role) {
			report(CPUTwice, c.CPUs.Intersection(other.CPUs), other.Name)
		}
	}
	return found
}

// confinementProblems returns what is wrong with the NUMA nodes of a container.
func (s *site) confinementProblems(c *ContainerClaim) []Problem {
	if len(c.NUMANodes) == 0 {
		return []Problem{{Kind: NoNUMANodes, Container: c.Name}}
	}
	var unknown []topology.NUMAID
	cpus := 0
	for _, id := range c.NUMANodes {
		if at, ok := s.nodeAt(id); ok {
			cpus += s.nodes[at].Len()
		} else {
			unknown = append(unknown, id)
		}
	}
	switch {
	case unknown != nil:
		return []Problem{{Kind: NUMAUnknown, Container: c.Name, NUMANodes: unknown}}
	case cpus == 0:
		return []Problem{{Kind: NUMAEmpty, Container: c.Name, NUMANodes: c.NUMANodes}}
	}
	return nil
}

// confinements returns the confinements of the static-burst containers of a pod, all of whose NUMA
// nodes exist. The demand of each is the largest of any phase.
func (s *site) confinements(containers []ContainerClaim) (found []confinement) {
	var demands []Phases[MilliCPU]
	for i := range containers {
		c := &containers[i]
		if c.Policy != placement.StaticBurst {
			continue
		}
		all := s.cpusOf(s.positions(c.NUMANodes))
		at := slices.IndexFunc(found, func(f confinement) bool { return f.cpus == all })
		if at < 0 {
			at = len(found)
			found = append(found, confinement{cpus: all, nodes: s.nodesOf(all)})
			demands = append(demands, Phases[MilliCPU]{})
		}
		demands[at].Add(c.Role, c.Request.bounded())
		found[at].demand = demands[at].Largest()
	}
	return found
}

// compareSeniority orders claims that collide.
func compareSeniority(rankA int64, a PodID, rankB int64, b PodID) int {
	return cmp.Or(cmp.Compare(rankA, rankB), cmp.Compare(a, b))
}
