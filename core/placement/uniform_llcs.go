package placement

import (
	"iter"
	"math/bits"
)

// countLLCs computes the minimum number of LLCs that can give the candidate's demand with its
// minimum of split cores, and the whole cores that remain.
func (u *uniform) countLLCs(ix *Index, s *scratch, c *candidate) {
	c.left = c.sum.whole() - c.whole
	switch {
	case c.rest == 0:
		c.llcs, _, _ = u.prefix(ix, s, c.mask, c.whole)
	case !c.partialOnly:
		u.countWithRest(ix, s, c)
	case u.threads == 2:
		c.llcs = c.sum.llcsWhole() + u.extraPartialLLCs(ix, s, c)
	default:
		u.countPartialLLCs(ix, s, c)
	}
}

// prefix takes the LLCs of the mask with the most whole free cores first, until they have `cores`
// together. It returns their number, their sum, and the fewest cores of one of them.
func (u *uniform) prefix(ix *Index, s *scratch, m mask, cores int) (llcs, sum, last int) {
	if u.packed {
		return s.prefixPacked(m, cores)
	}
	clear(s.histogram)
	for l := range ix.llcsOf(m) {
		s.histogram[s.llcs[l].whole()]++
	}
	for w := u.largest; w > 0 && sum < cores; w-- {
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
			llcs := ix.nodes[bits.TrailingZeros32(uint32(m))].pieces
			for l := llcs.from; l < llcs.to; l++ {
				if !yield(l) {
					return
				}
			}
		}
	}
}

// countsOf returns the sum of the counts of the nodes of a mask.
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
				n = (cores - sum + w - 1) / w // divide only for the last one: division is slow
			}
			llcs, sum, last = llcs+n, sum+n*w, w
			v &= 1<<(field*8) - 1
		}
	}
	return llcs, sum, last
}

// countWithRest counts the LLCs for whole cores and one more core for the rest. The rest comes from
// a partly free core if that needs no more LLCs, and otherwise splits a whole one.
func (u *uniform) countWithRest(ix *Index, s *scratch, c *candidate) {
	llcs, sum, last := u.prefix(ix, s, c.mask, c.whole)
	partial := u.bestPartial(ix, s, c)
	switch {
	case partial >= 0 && c.whole > 0 && (partial >= last || sum-last+partial >= c.whole):
		// An LLC with a suitable partly free core is among the LLCs, or replaces the last one.
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

// bestPartial returns the largest number of whole free cores of an LLC that also has a partly free
// core for the rest. It returns -1 if there is no such LLC.
func (u *uniform) bestPartial(ix *Index, s *scratch, c *candidate) int {
	best := -1
	for l := range ix.llcsOf(c.mask) {
		if w := s.llcs[l].whole(); w > best && u.hasPartial(s.llcs[l], c.rest) {
			best = w
		}
	}
	return best
}

// hasPartial reports whether a partly free core has at least rest free threads.
func (u *uniform) hasPartial(sum freeSum, rest int) bool {
	return sum.partial>>((rest-1)*u.width) != 0
}

// extraPartialLLCs returns how many LLCs without a whole free core are needed on an SMT2 machine in
// addition to those with one. It takes the LLCs with the most half-free cores first.
func (u *uniform) extraPartialLLCs(ix *Index, s *scratch, c *candidate) int {
	missing := c.rest
	clear(s.histogram)
	for l := range ix.llcsOf(c.mask) {
		if s.llcs[l].whole() > 0 {
			missing -= u.partialCores(s.llcs[l], 1)
		} else {
			s.histogram[u.partialCores(s.llcs[l], 1)]++
		}
	}
	extra := 0
	for p := u.largest; p > 0 && missing > 0; p-- {
		n := min(s.histogram[p], (missing+p-1)/p)
		extra, missing = extra+n, missing-n*p
	}
	return extra
}

// maxPartialLLCs is the largest number of LLCs without a whole free core of which countPartialLLCs
// tries all sets. With more, the general solver decides.
const maxPartialLLCs = 20

// countPartialLLCs counts the LLCs for the partly free cores of SMT4 and SMT8 machines. All LLCs
// with a whole free core are used. It finds the smallest set of other LLCs with which the minimum
// of split cores is possible.
func (u *uniform) countPartialLLCs(ix *Index, s *scratch, c *candidate) {
	inside := u.separateLLCs(ix, s, c.mask)
	if len(s.group) > maxPartialLLCs {
		c.general = true
		c.llcs = ix.fewestLLCsExactly(s.free, c.mask, c.whole*u.threads+c.rest)
		return
	}
	c.partialLLCs = u.fewestPartialLLCs(s, c, inside)
	c.llcs = c.sum.llcsWhole() + bits.OnesCount32(c.partialLLCs)
}

// separateLLCs returns the sum of the LLCs of the mask that have a whole free core. It fills
// s.group with the others that have a free CPU, ascending.
func (u *uniform) separateLLCs(ix *Index, s *scratch, m mask) (inside freeSum) {
	s.group = s.group[:0]
	for l := range ix.llcsOf(m) {
		switch sum := s.llcs[l]; {
		case sum.whole() > 0:
			inside = inside.plus(sum)
		case sum.cpus() > 0:
			s.group = append(s.group, l)
		}
	}
	return inside
}

// fewestPartialLLCs returns the smallest set of LLCs of s.group (bit i is entry i) that can give
// the candidate's demand together with the LLCs summed in inside.
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

// nextOfSize returns the next larger number with the same number of bits set (Gosper's hack).
func nextOfSize(set uint32) uint32 {
	low := set & -set
	high := set + low
	return high | (set^high)/low>>2
}
