package placement

import "slices"

// demand is how a number of CPUs is taken from the free cores of some nodes. As many whole cores as
// fit are taken. If a whole core is left then, one more core gives the rest, which is one CPU, at
// the cost of at most one split core. Otherwise each CPU of it costs a half-free core. An exchange
// argument shows that this is optimal.
type demand struct {
	whole    int  // cores taken whole
	rest     int  // CPUs beyond them
	split    int  // minimum of cores split to give the rest
	halfOnly bool // no whole core is left: the rest comes from half-free cores only
}

func (u *uniform) demandOn(sum freeSum, cpus int) demand {
	d := demand{whole: min(sum.whole(), cpus>>(u.threads-1))}
	d.rest = cpus - d.whole<<(u.threads-1)
	d.split, d.halfOnly = d.rest, d.rest > 0 && d.whole == sum.whole()
	return d
}

// candidate is a set of nodes that is optimal by criteria 1 to 3.
type candidate struct {
	mask     mask
	distance int
	sum      freeSum
	demand
	llcs      int
	breaks    bool // the rest splits a whole core
	remainder int  // whole free cores that stay free on the nodes
	planned   bool // s.bestTake and s.bestPartial are its plan
}

// bestNodes finds the best nodes for the query among the allowed ones. It returns false if no nodes
// can serve it.
func (s *search) bestNodes(allowed mask) (*candidate, bool) {
	for i, sum := range s.nodes {
		s.sets.capacity[i] = s.capacity(sum)
	}
	for size := s.sets.start(s.req.Budget, s.req.CPUs, allowed); size <= len(s.nodes); size++ {
		for above := -1; s.sets.next(size, above); above = s.sets.distance {
			if !s.collect() {
				continue
			}
			if s.candidates[0].rest == 0 && s.nodesAlike() {
				s.candidates = s.candidates[:1] // all candidates are equal, as on an empty machine
			}
			s.keepFewestLLCs()
			return s.leastFragmented(), true
		}
	}
	return nil, false
}

// nodesAlike reports whether all nodes have the same free cores and LLCs.
func (s *search) nodesAlike() bool {
	llcs := func(n int) []freeSum { p := s.ix.nodes[n].pieces; return s.llcs[p.from:p.to] }
	for i := 1; i < len(s.nodes); i++ {
		if s.nodes[i] != s.nodes[0] || !slices.Equal(llcs(i), llcs(0)) {
			return false
		}
	}
	return true
}

// capacity returns how many CPUs the request could get from a sum.
func (s *search) capacity(sum freeSum) int {
	if s.req.FullCores == FullCoresRequired {
		return sum.whole() * s.u.threads
	}
	return sum.cpus()
}

// collect fills s.candidates with those of the sets that were found that have the fewest split
// cores. It reports whether there are any.
func (s *search) collect() bool {
	s.candidates = s.candidates[:0]
	for _, m := range s.sets.found {
		if !s.admits(m) {
			continue
		}
		sum := s.sumOf(m)
		d := s.u.demandOn(sum, s.req.CPUs)
		if len(s.candidates) > 0 && d.split > s.candidates[0].split {
			continue
		}
		if len(s.candidates) > 0 && d.split < s.candidates[0].split {
			s.candidates = s.candidates[:0]
		}
		s.candidates = append(s.candidates, candidate{mask: m, distance: s.sets.distance, sum: sum, demand: d})
	}
	s.sets.exact = s.sets.exact && !s.req.Budget.Exhausted()
	return len(s.candidates) > 0
}

// keepFewestLLCs computes criterion 5 and keeps only the candidates with the minimum.
func (s *search) keepFewestLLCs() {
	kept := 0
	for i := range s.candidates {
		c := &s.candidates[i]
		s.countLLCs(c)
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
