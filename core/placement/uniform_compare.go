package placement

import "cmp"

// fewTies is the largest number of candidates of several nodes that are compared by LLC. Candidates
// of one node always are.
const fewTies = 4

// leastFragmented returns the best candidate by criterion 7, the first one among equals.
func (s *search) leastFragmented() *candidate {
	best := &s.candidates[0]
	single := best.mask&(best.mask-1) == 0
	byLLC := single || len(s.candidates) <= fewTies
	for i := 1; i < len(s.candidates); i++ {
		c := &s.candidates[i]
		order := s.compareNodes(c, best)
		if order == 0 && byLLC {
			order = s.compareLLCs(c, best)
		}
		if order > 0 {
			best = c
		}
	}
	return best
}

// compareLLCs plans both candidates, compares the whole cores per LLC that they leave free, and
// keeps the better plan. It returns 1 if c leaves the lexicographically larger list.
func (s *search) compareLLCs(c, best *candidate) int {
	if !best.planned {
		s.plan(best)
		s.keepPlan()
		best.planned = true
	}
	s.plan(c)
	order := s.comparePlans(c.mask | best.mask)
	if order > 0 {
		s.keepPlan()
		c.planned = true
	}
	return order
}

// compareNodes compares the whole cores per node that two candidates leave free, as descending
// lists. It returns 1 if a leaves the larger list. The remainder on the nodes of a mask counts as
// one entry, as plan arranges it.
//
// Entries in common are left out. What remains are the nodes that only b uses with the remainder of
// a, and the nodes that only a uses with the remainder of b.
func (s *search) compareNodes(a, b *candidate) int {
	var x, y [maxNodes + 1]int
	n := s.freeCores(b.mask&^a.mask, a.remainder, &x)
	s.freeCores(a.mask&^b.mask, b.remainder, &y)
	for i := range n {
		if x[i] != y[i] {
			return cmp.Compare(x[i], y[i])
		}
	}
	return 0
}

// freeCores fills list with the whole free cores of the nodes and one more number, descending. It
// returns the length.
func (s *search) freeCores(nodes mask, more int, list *[maxNodes + 1]int) int {
	list[0] = more
	n := 1
	for ; nodes != 0; nodes &= nodes - 1 {
		w, at := s.nodes[nodes.lowest()].whole(), n
		for ; at > 0 && list[at-1] < w; at-- {
			list[at] = list[at-1]
		}
		list[at] = w
		n++
	}
	return n
}

// comparePlans compares the whole cores per LLC that s.take and s.bestTake leave free. It returns 1
// if s.take leaves the lexicographically larger list. Only the LLCs of the given nodes can differ.
func (s *search) comparePlans(nodes mask) int {
	clear(s.histogram)
	for ; nodes != 0; nodes &= nodes - 1 { // llcsOf would cost 5% of a placement
		p := s.ix.nodes[nodes.lowest()].pieces
		for l := p.from; l < p.to; l++ {
			s.histogram[s.llcs[l].whole()-s.take[l]]++
			s.histogram[s.llcs[l].whole()-s.bestTake[l]]--
		}
	}
	for w := len(s.histogram) - 1; w > 0; w-- {
		switch {
		case s.histogram[w] > 0:
			return 1
		case s.histogram[w] < 0:
			return -1
		}
	}
	return 0
}

// keepPlan saves s.take and s.partialLLC. recallPlan restores them.
func (s *search) keepPlan() {
	s.take, s.bestTake, s.bestPartial = s.bestTake, s.take, s.partialLLC
}

func (s *search) recallPlan() {
	s.take, s.bestTake, s.partialLLC = s.bestTake, s.take, s.bestPartial
}
