package placement

// demand is how a number of CPUs is taken from the free cores of some nodes. As many whole cores as
// fit are taken. If a whole core is left then, one more core gives the rest. Otherwise the partly
// free cores with the most free threads do. An exchange argument shows that this is optimal.
type demand struct {
	whole       int  // cores taken whole
	rest        int  // CPUs beyond them
	split       int  // minimum of cores split to give the rest
	partialOnly bool // no whole core is left: the rest comes from partly free cores only
}

func (u *uniform) demandOn(sum freeSum, cpus int) demand {
	d := demand{whole: min(sum.whole(), cpus>>u.shift)}
	d.rest = cpus - d.whole<<u.shift
	switch {
	case d.rest == 0:
	case d.whole < sum.whole():
		d.split = 1
	default:
		d.partialOnly = true
		left := d.rest
		for f := u.threads - 1; f > 0 && left > 0; f-- {
			n := u.partialCores(sum, f)
			if n*f > left {
				n = (left + f - 1) / f
			}
			d.split += n
			left -= n * f
		}
	}
	return d
}

// candidate is a set of nodes that is optimal by criteria 1 to 3.
type candidate struct {
	mask     mask
	distance int
	sum      freeSum
	demand
	llcs    int
	breaks  bool // the rest splits a whole core
	left    int  // whole free cores that stay free on the nodes
	general bool // the general solver has to pick the cores
	planned bool // s.bestTake and s.bestPartial are its plan
	// partialLLCs are the LLCs without a whole free core that an SMT4 or SMT8 machine uses, as
	// returned by fewestPartialLLCs.
	partialLLCs uint32
}

// searchUniform finds the best nodes for a request among the allowed ones, and returns false if
// there are none.
func (ix *Index) searchUniform(s *scratch, req *Request, allowed mask) (*candidate, bool) {
	s.fillQuads()
	for size := ix.smallestSize(s, req, allowed); size <= len(ix.nodes); size++ {
		if !ix.collect(s, req, allowed, size) {
			continue
		}
		if s.candidates[0].rest == 0 && ix.uniform.nodesAlike(s) {
			s.candidates = s.candidates[:1] // all candidates are equal, as on an empty machine
		}
		ix.keepFewestLLCs(s)
		return ix.leastFragmented(s), true
	}
	return nil, false
}

// nodesAlike reports whether all nodes have the same free cores and LLCs.
func (u *uniform) nodesAlike(s *scratch) bool {
	for i := 1; i < len(s.nodes); i++ {
		if s.nodes[i] != s.nodes[0] || !u.packed || s.nodeCounts[i] != s.nodeCounts[0] {
			return false
		}
	}
	return true
}

// capacity returns how many CPUs a request could get from a sum.
func (u *uniform) capacity(sum freeSum, req *Request) int {
	if req.FullCores == FullCoresRequired {
		return sum.whole() * u.threads
	}
	return sum.cpus()
}

// smallestSize returns the smallest number of nodes whose capacity could suffice.
func (ix *Index) smallestSize(s *scratch, req *Request, allowed mask) int {
	// The largest capacity is found by max, which has no branches, and then removed by its index,
	// which is in the low bits.
	var keys [maxSubsetNodes]int
	for i := range s.nodes {
		if allowed>>i&1 == 1 {
			keys[i] = ix.uniform.capacity(s.nodes[i], req)<<8 | i
		}
	}
	sum := 0
	for size := 1; size <= len(s.nodes); size++ {
		largest := 0
		for _, k := range keys[:len(s.nodes)] {
			largest = max(largest, k)
		}
		if sum += largest >> 8; sum >= req.CPUs {
			return size
		}
		keys[largest&0xff] = 0
	}
	return len(ix.nodes) + 1
}

// collect fills s.candidates with the sets of `size` nodes at the least distance that have the
// fewest split cores. It reports whether there are any.
func (ix *Index) collect(s *scratch, req *Request, allowed mask, size int) bool {
	s.candidates = s.candidates[:0]
	distance := -1
	sets, u := ix.subsets.bySize[size], ix.uniform
	distances := ix.subsets.dist[sets.from:sets.to]
	for i, m := range ix.subsets.masks[sets.from:sets.to] {
		if distance >= 0 && distances[i] != distance {
			break
		}
		sum := s.sumOf(m)
		if m&^allowed != 0 || u.capacity(sum, req) < req.CPUs || req.Admit != nil && !ix.admits(req, maskNodes(m)) {
			continue
		}
		distance = distances[i]
		d := u.demandOn(sum, req.CPUs)
		if len(s.candidates) > 0 && d.split > s.candidates[0].split {
			continue
		}
		if len(s.candidates) > 0 && d.split < s.candidates[0].split {
			s.candidates = s.candidates[:0]
		}
		s.candidates = append(s.candidates, candidate{mask: m, distance: distance, sum: sum, demand: d})
	}
	return len(s.candidates) > 0
}

// keepFewestLLCs computes criterion 5 and keeps only the candidates with the minimum.
func (ix *Index) keepFewestLLCs(s *scratch) {
	kept := 0
	for i := range s.candidates {
		c := &s.candidates[i]
		ix.uniform.countLLCs(ix, s, c)
		if kept > 0 && c.llcs > s.candidates[0].llcs {
			continue
		}
		if kept > 0 && c.llcs < s.candidates[0].llcs {
			kept = 0
		}
		if kept != i {
			s.candidates[kept] = *c
		}
		kept++
	}
	s.candidates = s.candidates[:kept]
}
