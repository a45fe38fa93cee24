package placement

import "math/bits"

// countLLCs computes how few LLCs can give the candidate's demand with its minimum of split cores,
// and what remains.
func (u *uniform) countLLCs(ix *Index, s *scratch, c *candidate) {
	c.left = c.sum.whole() - c.whole
	switch {
	case c.rest == 0:
		c.llcs, _, _ = u.prefix(ix, s, c.mask, c.whole)
	case !c.partialOnly:
		u.countWithRest(ix, s, c)
	case u.threads == 2:
		c.llcs = c.sum.llcsWhole() + u.extraForScrap(ix, s, c)
	default:
		u.countScrap(ix, s, c)
	}
}

// prefix returns how many LLCs of the mask, those with the most whole free cores first, have
// `cores` together; how many they have; and the fewest that one of these LLCs has.
func (u *uniform) prefix(ix *Index, s *scratch, m mask, cores int) (llcs, sum, last int) {
	if u.packed {
		return s.prefixPacked(m, cores)
	}
	clear(s.histogram)
	for left := m; left != 0; left &= left - 1 {
		p := ix.nodes[bits.TrailingZeros32(uint32(left))].pieces
		for i := p.from; i < p.to; i++ {
			s.histogram[s.llcs[i].whole()]++
		}
	}
	for w := u.largest; w > 0 && sum < cores; w-- {
		n := min(s.histogram[w], (cores-sum+w-1)/w)
		if n > 0 {
			llcs, sum, last = llcs+n, sum+n*w, w
		}
	}
	return llcs, sum, last
}

// countsOf adds up the nodes of a mask.
func (s *scratch) countsOf(m mask) (counts packedCounts) {
	for ; m != 0; m &= m - 1 {
		counts = counts.plus(s.nodeCounts[bits.TrailingZeros32(uint32(m))])
	}
	return counts
}

func (s *scratch) prefixPacked(m mask, cores int) (llcs, sum, last int) {
	counts := s.countsOf(m)
	for v, base := counts.high, 8; base >= 0; v, base = counts.low, base-8 {
		for v != 0 && sum < cores {
			field := (63 - bits.LeadingZeros64(v)) / 8
			w := base + field + 1
			n := int(v >> (field * 8) & 0xff)
			if n*w > cores-sum {
				n = (cores - sum + w - 1) / w // a division is slow, and only the last one needs it
			}
			llcs, sum, last = llcs+n, sum+n*w, w
			v &= 1<<(field*8) - 1
		}
	}
	return llcs, sum, last
}

// countWithRest counts for whole cores and one more core for the rest: a partly free one where that
// needs no more LLCs, otherwise a whole one that is broken.
func (u *uniform) countWithRest(ix *Index, s *scratch, c *candidate) {
	llcs, sum, last := u.prefix(ix, s, c.mask, c.whole)
	partial := u.bestPartial(ix, s, c)
	switch {
	case partial >= 0 && c.whole > 0 && (partial >= last || sum-last+partial >= c.whole):
		// An LLC with a fitting partly free core is among those, or replaces the last.
	case sum > c.whole:
		c.breaks = true
	default:
		llcs++
		c.breaks = partial < 0
	}
	c.llcs = llcs
	if c.breaks {
		c.left--
	}
}

// bestPartial returns the most whole free cores that an LLC of the mask has beside a partly free
// core that can give the rest, or -1 when there is none.
func (u *uniform) bestPartial(ix *Index, s *scratch, c *candidate) int {
	best := -1
	for left := c.mask; left != 0; left &= left - 1 {
		p := ix.nodes[bits.TrailingZeros32(uint32(left))].pieces
		for i := p.from; i < p.to; i++ {
			if w := s.llcs[i].whole(); w > best && u.hasPartial(s.llcs[i], c.rest) {
				best = w
			}
		}
	}
	return best
}

// hasPartial reports whether a partly free core has at least rest free threads.
func (u *uniform) hasPartial(sum freeSum, rest int) bool {
	return sum.partial>>((rest-1)*u.width) != 0
}

// extraForScrap returns, for two threads per core, how many LLCs without a whole free core are
// needed beside those with one: the ones with the most half-free cores first.
func (u *uniform) extraForScrap(ix *Index, s *scratch, c *candidate) int {
	missing := c.rest
	clear(s.histogram)
	for left := c.mask; left != 0; left &= left - 1 {
		p := ix.nodes[bits.TrailingZeros32(uint32(left))].pieces
		for i := p.from; i < p.to; i++ {
			if s.llcs[i].whole() > 0 {
				missing -= u.partialCores(s.llcs[i], 1)
			} else {
				s.histogram[u.partialCores(s.llcs[i], 1)]++
			}
		}
	}
	extra := 0
	for p := u.largest; p > 0 && missing > 0; p-- {
		n := min(s.histogram[p], (missing+p-1)/p)
		extra, missing = extra+n, missing-n*p
	}
	return extra
}

// maxScrapLLCs is the largest number of LLCs without a whole free core of which countScrap tries
// all sets; beyond it the general solver decides.
const maxScrapLLCs = 20

// countScrap counts LLCs for the partly free cores of SMT4 and SMT8 machines: the LLCs with a whole
// free core are used in any case, and the smallest set of others is looked for with which the
// minimum of split cores is enough.
func (u *uniform) countScrap(ix *Index, s *scratch, c *candidate) {
	inside := u.splitScrap(ix, s, c.mask)
	if len(s.group) > maxScrapLLCs {
		c.general = true
		c.llcs = ix.fewestLLCsExactly(s.free, c.mask, c.whole*u.threads+c.rest)
		return
	}
	c.partialLLCs = u.fewestPartialLLCs(s, c, inside)
	c.llcs = c.sum.llcsWhole() + bits.OnesCount32(c.partialLLCs)
}

// splitScrap adds up the LLCs of the mask that have a whole free core and fills s.group with the
// others that have a free CPU, ascending.
func (u *uniform) splitScrap(ix *Index, s *scratch, m mask) (inside freeSum) {
	s.group = s.group[:0]
	for ; m != 0; m &= m - 1 {
		p := ix.nodes[bits.TrailingZeros32(uint32(m))].pieces
		for i := p.from; i < p.to; i++ {
			switch sum := s.llcs[i]; {
			case sum.whole() > 0:
				inside = inside.plus(sum)
			case sum.cpus() > 0:
				s.group = append(s.group, i)
			}
		}
	}
	return inside
}

// fewestPartialLLCs returns the smallest set of LLCs of s.group, bit i for entry i, that gives the
// candidate's demand together with the LLCs in `inside`.
func (u *uniform) fewestPartialLLCs(s *scratch, c *candidate, inside freeSum) uint32 {
	cpus := c.whole*u.threads + c.rest
	for size := range len(s.group) + 1 {
		for set := uint32(1)<<size - 1; set < 1<<len(s.group); set = nextOfSize(set) {
			sum := inside
			for left := set; left != 0; left &= left - 1 {
				sum = sum.plus(s.llcs[s.group[bits.TrailingZeros32(left)]])
			}
			if sum.cpus() >= cpus && u.demandOn(sum, cpus).split == c.split {
				return set
			}
			if set == 0 {
				break
			}
		}
	}
	panic("placement: all LLCs together do not give what was counted")
}

// nextOfSize returns the next larger number with as many bits set (Gosper).
func nextOfSize(set uint32) uint32 {
	low := set & -set
	high := set + low
	return high | (set^high)/low>>2
}
