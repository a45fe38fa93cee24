package placement

import (
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// most returns a number of CPUs that a request of this kind could have got: the largest one without
// limits, and with limits what filling the nodes one after the other gives, which may fall short of
// it where limits overlap.
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
	// reachable[n] says that some whole free cores have n threads together.
	reachable := make([]bool, min(room, cpuset.MaxCPUs)+1)
	reachable[0] = true
	for _, c := range ix.cores {
		if ix.pieces[c.piece].node != n || !cpuset.Of(c.threads...).IsSubsetOf(free) {
			continue
		}
		for sum := len(reachable) - 1; sum >= len(c.threads); sum-- {
			reachable[sum] = reachable[sum] || reachable[sum-len(c.threads)]
		}
	}
	for sum := len(reachable) - 1; ; sum-- {
		if reachable[sum] {
			return sum
		}
	}
}

// insufficient says how much there would have been.
func (ix *Index) insufficient(free cpuset.Set, req Request) error {
	e := &InsufficientError{Want: req.CPUs, Have: ix.most(free, &req), Policy: req.Policy, FullCores: req.FullCores}
	if e.Have < e.Want {
		return e
	}
	e.Lower, e.Higher = req.CPUs-1, req.CPUs+1
	for e.Lower > 0 && !ix.fits(free, req, e.Lower) {
		e.Lower--
	}
	for e.Higher < e.Have && !ix.fits(free, req, e.Higher) {
		e.Higher++
	}
	return e
}

// fits reports whether n CPUs could be placed.
func (ix *Index) fits(free cpuset.Set, req Request, n int) bool {
	req.CPUs = n
	if _, ok := ix.placeUniform(free, &req); ok {
		return true
	}
	_, ok := ix.placeGeneral(free, &req)
	return ok
}

// mostShared returns the most shared CPUs that an admitted set of nodes has: all nodes together, or
// the best that the search would have looked at.
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
