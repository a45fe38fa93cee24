package placement

import (
	"cmp"
	"math/bits"
)

// maxPacked is the largest number of whole cores per LLC that packedCounts supports.
const maxPacked = 16

// packedCounts holds the number of LLCs by their whole free cores. Byte w-1 counts those with w
// cores: low has the first eight bytes, high the others.
type packedCounts struct{ low, high uint64 }

// onePacked returns the counts of one LLC with w whole free cores, at most maxPacked; all zero if w
// is 0. It has no branches: a shift by more than the word, such as by a negative number made
// unsigned, gives 0.
func onePacked(w int) packedCounts {
	return packedCounts{1 << (uint(w-1) * 8), 1 << (uint(w-9) * 8)}
}

func (p packedCounts) plus(q packedCounts) packedCounts {
	return packedCounts{p.low + q.low, p.high + q.high}
}

// of returns the number of LLCs with w whole free cores, w >= 1.
func (p packedCounts) of(w int) int {
	if w > 8 {
		return int(p.high >> ((w - 9) * 8) & 0xff)
	}
	return int(p.low >> ((w - 1) * 8) & 0xff)
}

// smallest returns the n smallest LLCs and the sum of their whole free cores. There must be at
// least n.
func (p packedCounts) smallest(n int) (list packedCounts, cores int) {
	for w := 1; n > 0; w++ {
		taken, one := min(n, p.of(w)), onePacked(w)
		list.low += one.low * uint64(taken)
		list.high += one.high * uint64(taken)
		cores += w * taken
		n -= taken
	}
	return list, cores
}

// compare compares the descending lists of whole free cores, which is to compare the counts as
// numbers.
func (p packedCounts) compare(q packedCounts) int {
	return cmp.Or(cmp.Compare(p.high, q.high), cmp.Compare(p.low, q.low))
}

// boundLLCs returns lower and upper bounds for the whole cores per LLC that a plan of the candidate
// leaves free. The bounds are usually equal.
func (s *search) boundLLCs(c *candidate) (least, most packedCounts) {
	if c.rest > 0 || c.left < 2 {
		return s.u.boundFrom(onePacked(min(c.left, 1)), min(c.left, 1), c.left)
	}
	one := onePacked(c.left)
	out := c.sum.llcsWhole() - c.llcs // number of LLCs left out
	if out == 0 {
		// All the rest stays in the highest node, in one LLC if one is large enough.
		highest := s.nodeCounts[bits.Len32(uint32(c.mask))-1]
		if c.left <= s.u.largest && highest.compare(one) >= 0 {
			return one, one
		}
		return s.u.boundFrom(onePacked(1), 1, c.left)
	}
	counts := s.countsOf(c.mask)
	smallest, sum := counts.smallest(out)
	// LLCs that are left out keep all their cores: the list is never smaller than that of the
	// smallest ones, and the rest is added to it.
	switch {
	case sum == c.left:
		return smallest, smallest // no others can be left out
	case out == 1 && counts.of(c.left) > 0:
		return one, one // the largest possible list
	case out == 1:
		return s.u.boundFrom(smallest, 2, c.left)
	}
	return s.u.boundFrom(smallest, out, c.left)
}

// boundFrom returns the bounds for the given number of cores in at least the given number of LLCs,
// if no list is smaller than the one given.
func (u *uniform) boundFrom(smallest packedCounts, llcs, cores int) (least, most packedCounts) {
	ones := packedCounts{low: uint64(llcs)} // each holds one core
	if cores == llcs {
		return ones, ones
	}
	// One core in each LLC but one, which has all others if it can hold them.
	first := cores - llcs + 1
	if first > u.largest {
		first, llcs = cores, 1
	}
	most = packedCounts{low: uint64(llcs - 1)}
	for ; first > u.largest; first -= u.largest {
		most = most.plus(onePacked(u.largest))
	}
	return smallest, most.plus(onePacked(first))
}
