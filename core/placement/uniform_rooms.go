package placement

import "math/bits"

// fewTies is how many candidates of several nodes are compared by the rooms that they leave in
// LLCs. Candidates of one node are always compared that far.
const fewTies = 4

// leastFragmented returns the candidate after which the largest rooms remain: criterion 6. The
// first one wins among equals.
func (ix *Index) leastFragmented(s *scratch) *candidate {
	best := &s.candidates[0]
	single := best.mask&(best.mask-1) == 0
	byLLC := single || len(s.candidates) <= fewTies
	for i := 1; i < len(s.candidates); i++ {
		c := &s.candidates[i]
		order := s.compareRooms(c, best)
		if order == 0 && byLLC && (!single || !ix.uniform.sameRooms(s, c, best)) {
			order = ix.uniform.compareLLCs(ix, s, c, best)
		}
		if order > 0 {
			best = c
		}
	}
	return best
}

// compareLLCs compares what stays free per LLC after a candidate and after the best so far: 1 when
// c leaves the lexicographically larger list. Where bounds do not tell, both are planned, and the
// better plan is kept for it.
func (u *uniform) compareLLCs(ix *Index, s *scratch, c, best *candidate) int {
	if u.packed {
		// As in compareRooms, what the lists have in common is left out.
		a, b := s.countsOf(best.mask&^c.mask), s.countsOf(c.mask&^best.mask)
		aLeast, aMost := u.boundRooms(s, c)
		bLeast, bMost := u.boundRooms(s, best)
		switch {
		case a.plus(aMost).compare(b.plus(bLeast)) <= 0:
			return -1 // or equal, which is as bad
		case a.plus(aLeast).compare(b.plus(bMost)) > 0:
			return 1
		}
	}
	if !best.planned {
		u.plan(ix, s, best)
		s.keepPlan()
		best.planned = true
	}
	u.plan(ix, s, c)
	order := u.compareLLCRooms(ix, s, c.mask|best.mask)
	if order > 0 {
		s.keepPlan()
		c.planned = true
	}
	return order
}

// compareRooms compares what stays free per node, as descending lists of whole free cores: 1 when a
// leaves the lexicographically larger list. What remains in the nodes of a mask is counted as one
// room, as plan arranges it.
//
// All that the two lists have in common is left out of the comparison: it then is between the nodes
// that only b takes, with a's remainder, and the nodes that only a takes, with b's remainder.
func (s *scratch) compareRooms(a, b *candidate) int {
	var x, y [maxSubsetNodes + 1]int
	n := s.rooms(b.mask&^a.mask, a.left, &x)
	s.rooms(a.mask&^b.mask, b.left, &y)
	for i := range n {
		if x[i] != y[i] {
			if x[i] > y[i] {
				return 1
			}
			return -1
		}
	}
	return 0
}

// rooms lists the whole free cores of the nodes and one more number, descending.
func (s *scratch) rooms(nodes mask, more int, list *[maxSubsetNodes + 1]int) int {
	list[0] = more
	n := 1
	for ; nodes != 0; nodes &= nodes - 1 {
		w, at := s.nodes[bits.TrailingZeros32(uint32(nodes))].whole(), n
		for ; at > 0 && list[at-1] < w; at-- {
			list[at] = list[at-1]
		}
		list[at] = w
		n++
	}
	return n
}

// sameRooms reports whether two single nodes have LLCs with equally many whole free cores, so that
// no plan leaves larger ones in the one than in the other.
func (u *uniform) sameRooms(s *scratch, a, b *candidate) bool {
	return u.packed && a.rest == 0 &&
		s.nodeCounts[bits.TrailingZeros32(uint32(a.mask))] == s.nodeCounts[bits.TrailingZeros32(uint32(b.mask))]
}

// compareLLCRooms compares the whole free cores that stay per LLC under s.take and s.bestTake: 1
// when s.take leaves the lexicographically larger list. Only the LLCs of the given nodes can
// differ.
func (u *uniform) compareLLCRooms(ix *Index, s *scratch, nodes mask) int {
	clear(s.histogram)
	for ; nodes != 0; nodes &= nodes - 1 {
		p := ix.nodes[bits.TrailingZeros32(uint32(nodes))].pieces
		for i := p.from; i < p.to; i++ {
			s.histogram[s.llcs[i].whole()-s.take[i]]++
			s.histogram[s.llcs[i].whole()-s.bestTake[i]]--
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
