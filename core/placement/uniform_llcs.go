package placement

import "iter"

// countLLCs computes the minimum number of LLCs that can give the candidate's demand with its
// minimum of split cores, and the whole cores that remain.
func (s *search) countLLCs(c *candidate) {
	c.remainder = c.sum.whole() - c.whole
	switch {
	case c.rest == 0:
		c.llcs, _, _ = s.prefix(c.mask, c.whole)
	case c.halfOnly:
		c.llcs = c.sum.llcsWhole() + s.extraHalfLLCs(c)
	default:
		s.countWithRest(c)
	}
}

// prefix takes the LLCs of the mask with the most whole free cores first, until they have `cores`
// together. It returns their number, their sum, and the fewest cores of one of them.
func (s *search) prefix(m mask, cores int) (llcs, sum, last int) {
	clear(s.histogram)
	for l := range s.ix.llcsOf(m) {
		s.histogram[s.llcs[l].whole()]++
	}
	for w := s.u.largest; w > 0 && sum < cores; w-- {
		n := min(s.histogram[w], (cores-sum+w-1)/w)
		if n > 0 {
			llcs, sum, last = llcs+n, sum+n*w, w
		}
	}
	return llcs, sum, last
}

// llcsOf yields the LLCs of the nodes of a mask, ascending.
func (ix *Index) llcsOf(m mask) iter.Seq[int] {
	return func(yield func(int) bool) {
		for ; m != 0; m &= m - 1 {
			llcs := ix.nodes[m.lowest()].pieces
			for l := llcs.from; l < llcs.to; l++ {
				if !yield(l) {
					return
				}
			}
		}
	}
}

// countWithRest counts the LLCs for whole cores and one more core for the rest. The rest comes from
// a half-free core if that needs no more LLCs, and otherwise splits a whole one.
func (s *search) countWithRest(c *candidate) {
	llcs, sum, last := s.prefix(c.mask, c.whole)
	partial := s.bestWithHalf(c)
	switch {
	case partial >= 0 && c.whole > 0 && (partial >= last || sum-last+partial >= c.whole):
		// An LLC with a half-free core is among the LLCs, or replaces the last one.
	case sum > c.whole:
		c.breaks = true
	default:
		llcs++
		c.breaks = partial < 0
	}
	c.llcs = llcs
	if c.breaks {
		c.remainder--
	}
}

// bestWithHalf returns the largest number of whole free cores of an LLC that also has a half-free
// core. It returns -1 if there is no such LLC.
func (s *search) bestWithHalf(c *candidate) int {
	best := -1
	for l := range s.ix.llcsOf(c.mask) {
		if w := s.llcs[l].whole(); w > best && s.llcs[l].half() > 0 {
			best = w
		}
	}
	return best
}

// extraHalfLLCs returns how many LLCs without a whole free core are needed in addition to those
// with one. It takes the LLCs with the most half-free cores first.
func (s *search) extraHalfLLCs(c *candidate) int {
	missing := c.rest
	clear(s.histogram)
	for l := range s.ix.llcsOf(c.mask) {
		if s.llcs[l].whole() > 0 {
			missing -= s.llcs[l].half()
		} else {
			s.histogram[s.llcs[l].half()]++
		}
	}
	extra := 0
	for p := s.u.largest; p > 0 && missing > 0; p-- {
		n := min(s.histogram[p], (missing+p-1)/p)
		extra, missing = extra+n, missing-n*p
	}
	return extra
}
