package ledger

import (
	"cmp"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// entry is one claim as it stands against the machine alone, whatever others claim. It never
// changes, so that books and their clones can have it in common.
type entry struct {
	claim Claim
	// static is what its static containers claim.
	static cpuset.Set
	// problems are what makes it lose without anybody else's doing.
	problems []Problem
	// confined are its static-burst containers, one item per confinement.
	confined []confinement
	// ownRequest is what its Containers request of the shared CPUs when it loses.
	ownRequest MilliCPU
	// stranded is what those static containers request of the shared CPUs that have no CPU online.
	// Other static ones request nothing of them as long as the claim holds.
	stranded MilliCPU
}

// confinement is what is confined to the same NUMA nodes.
type confinement struct {
	cpus   cpuset.Set // all online CPUs of the nodes
	nodes  []int      // the nodes that have CPUs, as positions in site.nodes, ascending
	demand MilliCPU   // what it requests of their shared CPUs
	// limit is how many of them must stay shared: of one pod the limits of all containers that run
	// at the same time, of several pods the largest.
	limit int
}

// fill makes an empty entry the one of a claim.
func (e *entry) fill(s *site, claim Claim) {
	e.claim = claim
	if len(claim.Containers) == 0 {
		return
	}
	var own, stranded Phases[MilliCPU]
	for i := range claim.Containers {
		c := &claim.Containers[i]
		request := c.Request.bounded()
		own.Add(c.Role, request)
		switch c.Policy {
		case placement.Static:
			e.problems = append(e.problems, s.staticProblems(claim.Containers, i)...)
			e.static = e.static.Union(c.CPUs)
			if !c.CPUs.Intersects(s.online) {
				stranded.Add(c.Role, request)
			}
		case placement.StaticBurst:
			e.problems = append(e.problems, s.confinementProblems(c)...)
		default:
			e.problems = append(e.problems, Problem{Kind: PolicyUnknown, Container: c.Name, Policy: c.Policy})
		}
	}
	e.ownRequest, e.stranded = own.Largest(), stranded.Largest()
	if len(e.problems) == 0 {
		e.confined = s.confinements(claim.Containers)
	}
}

// staticProblems returns what is wrong with the CPUs of containers[at].
func (s *site) staticProblems(containers []ContainerClaim, at int) (found []Problem) {
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
			cpus += s.nodes[at].cpus.Len()
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

// confinements sums up the static-burst containers of a pod whose NUMA nodes are all there. Its
// demand on each confinement, and its limit, is the largest of any phase.
func (s *site) confinements(containers []ContainerClaim) (found []confinement) {
	var demands []Phases[MilliCPU]
	var limits []Phases[int]
	for i := range containers {
		c := &containers[i]
		if c.Policy != placement.StaticBurst {
			continue
		}
		all := s.confinementCPUs(c)
		at := slices.IndexFunc(found, func(f confinement) bool { return f.cpus == all })
		if at < 0 {
			at = len(found)
			found = append(found, confinement{cpus: all, nodes: s.nodesOf(all)})
			demands, limits = append(demands, Phases[MilliCPU]{}), append(limits, Phases[int]{})
		}
		demands[at].Add(c.Role, c.Request.bounded())
		limits[at].Add(c.Role, c.Limit)
		found[at].demand, found[at].limit = demands[at].Largest(), limits[at].Largest()
	}
	return found
}

// confinementCPUs are the online CPUs of the NUMA nodes of a static-burst container, which are all
// there.
func (s *site) confinementCPUs(c *ContainerClaim) cpuset.Set {
	return s.cpusOf(s.positions(c.NUMANodes))
}

// portion is what one container has of its pod's CPUs.
type portion struct {
	container string
	cpus      cpuset.Set
}

// portions divides the static CPUs among the containers, each CPU to one: to the container that has
// it for the longest time.
func (e *entry) portions() []portion {
	var all []portion
	left := e.static
	for _, init := range []bool{false, true} {
		for i := range e.claim.Containers {
			c := &e.claim.Containers[i]
			if (c.Role == RoleInit) == init && c.Policy == placement.Static {
				all = append(all, portion{c.Name, c.CPUs.Intersection(left)})
				left = left.Difference(c.CPUs)
			}
		}
	}
	return all
}

// compareSeniority orders claims that collide.
func compareSeniority(rankA int64, a PodID, rankB int64, b PodID) int {
	return cmp.Or(cmp.Compare(rankA, rankB), cmp.Compare(a, b))
}
