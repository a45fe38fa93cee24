package placement

import (
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// most returns how many CPUs a request of this kind could have got. With limits
// it fills the nodes one after the other, which is the maximum for limits that
// come from demands confined to nodes (they form a polymatroid) and a number that
// can be had in any case.
func (ix *Index) most(free cpuset.Set, req *Request) int {
	if req.Policy == StaticBurst {
		return ix.mostShared(free, req)
	}
	left := make([]int, len(req.Limits))
	nodes := make([]cpuset.Set, len(req.Limits))
	for i, l := range req.Limits {
		left[i] = l.CPUs
		nodes[i], _ = ix.limitNodes(l)
	}
	total := 0
	for n := range ix.nodes {
		room := cpuset.MaxCPUs
		for i := range left {
			if nodes[i].Contains(cpuset.CPU(n)) {
				room = min(room, left[i])
			}
		}
		got := ix.mostOf(n, free, req, room)
		total += got
		for i := range left {
			if nodes[i].Contains(cpuset.CPU(n)) {
				left[i] -= got
			}
		}
	}
	return total
}

// mostOf returns how many CPUs, at most room, a static request could have of a node.
func (ix *Index) mostOf(n int, free cpuset.Set, req *Request, room int) int {
	if req.FullCores != FullCoresRequired {
		return min(room, ix.nodes[n].cpus.Intersection(free).Len())
	}
	// The sums of whole free cores that do not exceed room.
	var reachable cpuset.Set
	reachable.Add(0)
	for _, c := range ix.cores {
		if ix.pieces[c.piece].node != n || !cpuset.Of(c.threads...).IsSubsetOf(free) {
			continue
		}
		next := reachable
		for sum := range reachable.All() {
			if with := int(sum) + len(c.threads); with <= room && with < cpuset.MaxCPUs {
				next.Add(cpuset.CPU(with))
			}
		}
		reachable = next
	}
	best := cpuset.CPU(0)
	for sum := range reachable.All() {
		best = sum
	}
	return int(best)
}

// mostShared returns the most shared CPUs that an admitted set of nodes has: all
// nodes together, or the best that the search would have looked at.
func (ix *Index) mostShared(free cpuset.Set, req *Request) int {
	if req.Admit == nil {
		return free.Len()
	}
	var buffer [cpuset.MaxCPUs]topology.NUMAID
	best := 0
	for size := 1; size <= len(ix.nodes); size++ {
		sets, _ := ix.nodeSets(free, size, 1)
		for set := range sets {
			if n := ix.freeIn(free, set.nodes); n > best && req.Admit(ix.nodeIDs(set.nodes, buffer[:])) {
				best = n
			}
		}
	}
	return best
}
