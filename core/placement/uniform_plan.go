package placement

import "math/bits"

// plan decides how many whole cores each LLC gives: s.take, and s.partialLLC.
//
// A demand that needs m LLCs leaves all others of its nodes untouched. Which ones is decided by
// criterion 6: first the remainder is kept in one node, if the minimum of LLCs can be had that way,
// then the largest LLCs are left out that the remainder covers, and what still remains is kept in
// one LLC.
func (u *uniform) plan(ix *Index, s *scratch, c *candidate) {
	clear(s.take)
	s.partialLLC = -1
	for m := c.mask; m != 0; m &= m - 1 {
		p := ix.nodes[bits.TrailingZeros32(uint32(m))].pieces
		for l := p.from; l < p.to; l++ {
			s.take[l] = s.llcs[l].whole()
		}
	}
	if c.partialOnly || c.rest == 0 && c.left == 0 {
		return
	}
	u.sortLLCs(ix, s, c.mask)
	best := untouched{host: -1}
	if c.rest > 0 && !c.breaks {
		for l := range s.llcs {
			if c.mask>>u.llcs[l].node&1 == 1 && u.hasPartial(s.llcs[l], c.rest) {
				if u.findUntouched(s, c, l, &best) {
					s.partialLLC = l
				}
			}
		}
	} else {
		u.findUntouched(s, c, -1, &best)
	}
	for _, l := range s.bestOut {
		s.take[l] = 0
	}
	u.putBack(s, best)
}

// untouched is a choice of LLCs that are left untouched (in s.bestOut).
type untouched struct {
	host int // the node that keeps all that remains, -1 when several do
	rest int // whole cores that remain in the LLCs that are used
	some bool
}

// sortLLCs fills s.order with the LLCs of the mask that have whole free cores, those with the most
// first, the highest number first among equals.
func (u *uniform) sortLLCs(ix *Index, s *scratch, m mask) {
	clear(s.histogram)
	for left := m; left != 0; left &= left - 1 {
		p := ix.nodes[bits.TrailingZeros32(uint32(left))].pieces
		for l := p.from; l < p.to; l++ {
			s.histogram[s.llcs[l].whole()]++
		}
	}
	// From how many LLCs have so many cores to where the first of them goes.
	next := 0
	for w := u.largest; w > 0; w-- {
		s.histogram[w], next = next, next+s.histogram[w]
	}
	s.order = s.order[:next]
	for m != 0 {
		highest := 31 - bits.LeadingZeros32(uint32(m))
		m &^= 1 << highest
		p := ix.nodes[highest].pieces
		for l := p.to - 1; l >= p.from; l-- {
			if w := s.llcs[l].whole(); w > 0 {
				s.order[s.histogram[w]] = l
				s.histogram[w]++
			}
		}
	}
}

// findUntouched finds the best LLCs to leave out when LLC `forced` (or none, -1) has to be used,
// and keeps them in best and s.bestOut when they are better than what is there. It reports whether
// they were.
func (u *uniform) findUntouched(s *scratch, c *candidate, forced int, best *untouched) bool {
	used := c.llcs
	if forced >= 0 && s.llcs[forced].whole() == 0 {
		used--
	}
	out := len(s.order) - used
	if out < 0 {
		return false
	}
	better, hosted := false, false
	for m := c.mask; m != 0; {
		host := 31 - bits.LeadingZeros32(uint32(m))
		m &^= 1 << host
		s.group = s.group[:0]
		for _, l := range s.order {
			if u.llcs[l].node == host && l != forced {
				s.group = append(s.group, l)
			}
		}
		if rest, ok := s.leaveOut(out, c.left); ok {
			better = s.keepUntouched(untouched{host, rest, true}, best) || better
			hosted = true
		}
	}
	if hosted {
		return better
	}
	s.group = s.group[:0]
	for _, l := range s.order {
		if l != forced {
			s.group = append(s.group, l)
		}
	}
	if rest, ok := s.leaveOut(out, c.left); ok {
		return s.keepUntouched(untouched{-1, rest, true}, best)
	}
	return false
}

// leaveOut chooses `out` LLCs of s.group, the largest possible, that have at most `budget` whole
// cores together, into s.excluded. It returns what is left of the budget, and false when there are
// none.
func (s *scratch) leaveOut(out, budget int) (rest int, ok bool) {
	s.excluded = s.excluded[:0]
	if len(s.group) < out {
		return 0, false
	}
	smallest := 0 // sum of the `out` smallest of what is still to be looked at
	for _, l := range s.group[len(s.group)-out:] {
		smallest += s.llcs[l].whole()
	}
	if smallest > budget {
		return 0, false
	}
	for i, l := range s.group {
		if out == 0 {
			break
		}
		w := s.llcs[l].whole()
		// With l left out, the out-1 smallest of the others follow; those are the `out` smallest
		// without the largest of them, or without l itself.
		largestOfSmallest := s.llcs[s.group[len(s.group)-out]].whole()
		if others := smallest - largestOfSmallest; w+others <= budget || i == len(s.group)-out {
			s.excluded = append(s.excluded, l)
			budget -= w
			smallest -= largestOfSmallest
			out--
		}
	}
	return budget, true
}

// keepUntouched replaces best by s.excluded when that leaves larger LLCs free.
func (s *scratch) keepUntouched(found untouched, best *untouched) bool {
	if best.some && s.compareLeaving(found.rest, best.rest) <= 0 {
		return false
	}
	*best = found
	s.bestOut = append(s.bestOut[:0], s.excluded...)
	return true
}

// compareLeaving compares the LLCs of s.excluded and one of restA cores with those of s.bestOut and
// one of restB, as descending lists.
func (s *scratch) compareLeaving(restA, restB int) int {
	i, j := 0, 0
	for {
		a, b := nextRoom(s, s.excluded, &i, &restA), nextRoom(s, s.bestOut, &j, &restB)
		switch {
		case a > b:
			return 1
		case a < b:
			return -1
		case a == 0:
			return 0
		}
	}
}

// nextRoom takes the larger of the next LLC of a descending list and the rest.
func nextRoom(s *scratch, list []int, at, rest *int) int {
	w := 0
	if *at < len(list) {
		w = s.llcs[list[*at]].whole()
	}
	if *rest >= w {
		w, *rest = *rest, 0
		return w
	}
	*at++
	return w
}

// putBack frees the rest in the highest LLC of the host that can keep all of it, or, where none
// can, in the highest ones.
func (u *uniform) putBack(s *scratch, best untouched) {
	rest := best.rest
	for l := len(s.take) - 1; l >= 0 && rest > 0; l-- {
		if (best.host < 0 || u.llcs[l].node == best.host) && s.take[l] >= rest {
			s.take[l] -= rest
			rest = 0
		}
	}
	for l := len(s.take) - 1; l >= 0 && rest > 0; l-- {
		n := min(rest, s.take[l])
		s.take[l] -= n
		rest -= n
	}
}
