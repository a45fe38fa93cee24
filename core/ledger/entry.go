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
	// invalid makes the claim lose regardless of other claims.
	invalid bool
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
			there := s.online.Union(s.offline).Difference(s.config.ReservedCPUs).Difference(earlier.With(c.Role))
			e.invalid = e.invalid || c.CPUs.IsEmpty() || !c.CPUs.IsSubsetOf(there)
			earlier.Add(c.Role, c.CPUs)
			e.static = e.static.Union(c.CPUs)
			if !c.CPUs.Intersects(s.online) {
				offlineRequest.Add(c.Role, request)
			}
		case placement.StaticBurst:
			e.invalid = e.invalid || !s.confines(c.NUMANodes)
		default:
			e.invalid = true
		}
	}
	e.ownRequest, e.offlineRequest = own.Largest(), offlineRequest.Largest()
	if !e.invalid {
		e.confined = s.confinements(claim.Containers)
	}
}

// confines reports whether all NUMA nodes exist, and some have CPUs.
func (s *site) confines(ids []topology.NUMAID) bool {
	cpus := 0
	for _, id := range ids {
		at, ok := s.nodeAt(id)
		if !ok {
			return false
		}
		cpus += s.nodes[at].Len()
	}
	return cpus > 0
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
