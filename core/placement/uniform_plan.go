package placement

// plan computes s.take, the number of whole cores that each LLC gives, and s.partialLLC.
//
// A demand that needs m LLCs leaves all other LLCs of its nodes untouched. Since m is minimal, the
// LLCs in use keep fewer whole cores free than any one of them had. Criterion 7 decides which ones
// are untouched: the remainder stays in one node if the minimum of LLCs permits it; then the
// largest LLCs that fit into the remainder are left out; and the cores that still remain stay in
// one LLC.
func (s *search) plan(c *candidate) {
	clear(s.take)
	s.partialLLC = -1
	for m := c.mask; m != 0; m &= m - 1 { // llcsOf would cost 5% of a placement
		p := s.ix.nodes[m.lowest()].pieces
		for l := p.from; l < p.to; l++ {
			s.take[l] = s.llcs[l].whole()
		}
	}
	if c.halfOnly || c.rest == 0 && c.remainder == 0 {
		return
	}
	s.sortLLCs(c.mask)
	best := untouched{host: -1}
	if c.rest > 0 && !c.breaks {
		for l := range s.ix.llcsOf(c.mask) {
			if s.llcs[l].half() > 0 && s.findUntouched(c, l, &best) {
				s.partialLLC = l
			}
		}
	} else {
		s.findUntouched(c, -1, &best)
	}
	for _, l := range s.bestOut {
		s.take[l] = 0
	}
	s.putBack(best)
}

// untouched describes the LLCs that are left untouched, which are listed in s.bestOut.
type untouched struct {
	host int  // the node that keeps the whole remainder, or -1
	rest int  // whole cores left free in the LLCs in use
	some bool // false until a choice was found
}

// sortLLCs fills s.order with the LLCs of the mask that have whole free cores: those with the most
// first, and the highest number first among equals.
func (s *search) sortLLCs(m mask) {
	clear(s.histogram)
	for nodes := m; nodes != 0; nodes &= nodes - 1 { // llcsOf would cost 5% of a placement
		p := s.ix.nodes[nodes.lowest()].pieces
		for l := p.from; l < p.to; l++ {
			s.histogram[s.llcs[l].whole()]++
		}
	}
	// Turn each count into the position of the first LLC with that many cores.
	next := 0
	for w := s.u.largest; w > 0; w-- {
		s.histogram[w], next = next, next+s.histogram[w]
	}
	s.order = s.order[:next]
	for m != 0 {
		highest := m.highest()
		m &^= 1 << highest
		p := s.ix.nodes[highest].pieces
		for l := p.to - 1; l >= p.from; l-- {
			if w := s.llcs[l].whole(); w > 0 {
				s.order[s.histogram[w]] = l
				s.histogram[w]++
			}
		}
	}
}

// findUntouched finds the best LLCs to leave out if LLC `forced` must be used (-1: none). If they
// are better than best, it stores them in best and s.bestOut and returns true.
func (s *search) findUntouched(c *candidate, forced int, best *untouched) bool {
	used := c.llcs
	if forced >= 0 && s.llcs[forced].whole() == 0 {
		used--
	}
	out := len(s.order) - used
	if out < 0 {
		return false
	}
	better, found := false, false
	for m := c.mask; m != 0 || !found; {
		host := m.highest() // -1 in the end, if no single node can keep the remainder
		m &^= 1 << max(host, 0)
		s.group = s.group[:0]
		for _, l := range s.order {
			if (host < 0 || s.u.llcs[l].node == host) && l != forced {
				s.group = append(s.group, l)
			}
		}
		if rest, ok := s.leaveOut(out, c.remainder); ok {
			better = s.keepUntouched(untouched{host, rest, true}, best) || better
			found = true
		}
		if host < 0 {
			break
		}
	}
	return better
}

// leaveOut fills s.excluded with `out` LLCs of s.group, the largest possible, that have at most
// `budget` whole cores together. It returns what is left of the budget, and false if there are
// none.
func (s *search) leaveOut(out, budget int) (rest int, ok bool) {
	s.excluded = s.excluded[:0]
	if len(s.group) < out {
		return 0, false
	}
	smallest := 0 // sum of the `out` smallest remaining ones
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
		// If l is left out, out-1 further ones follow. The smallest ones are the `out` smallest
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

// keepUntouched replaces best by s.excluded if that leaves larger LLCs free.
func (s *search) keepUntouched(found untouched, best *untouched) bool {
	if best.some && s.compareLeaving(found.rest, best.rest) <= 0 {
		return false
	}
	*best = found
	s.bestOut = append(s.bestOut[:0], s.excluded...)
	return true
}

// compareLeaving compares two descending lists of whole cores: the LLCs of s.excluded with one of
// restA cores, and those of s.bestOut with one of restB.
func (s *search) compareLeaving(restA, restB int) int {
	i, j := 0, 0
	for {
		a, b := nextLargest(s, s.excluded, &i, &restA), nextLargest(s, s.bestOut, &j, &restB)
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

// nextLargest removes and returns the larger of the next LLC of a descending list and the rest.
func nextLargest(s *search, list []int, at, rest *int) int {
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

// putBack leaves the rest free in the highest LLC of the host that can hold all of it, or otherwise
// in the highest ones.
func (s *search) putBack(best untouched) {
	rest := best.rest
	for l := len(s.take) - 1; l >= 0 && rest > 0; l-- {
		if (best.host < 0 || s.u.llcs[l].node == best.host) && s.take[l] >= rest {
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
