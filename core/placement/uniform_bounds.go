package placement

import "math/bits"

// boundRooms returns the smallest and the largest list of LLCs in which a plan of the candidate may
// leave whole free cores. They are mostly the same.
func (u *uniform) boundRooms(s *scratch, c *candidate) (least, most packedCounts) {
	if c.rest > 0 || c.left < 2 {
		return u.boundFrom(onePacked(min(c.left, 1)), min(c.left, 1), c.left)
	}
	one := onePacked(c.left)
	out := c.sum.llcsWhole() - c.llcs // so many LLCs are left out
	if out == 0 {
		// All goes back into the highest node, into one LLC where one is large enough.
		highest := s.nodeCounts[bits.Len32(uint32(c.mask))-1]
		if c.left <= u.largest && highest.compare(one) >= 0 {
			return one, one
		}
		return u.boundFrom(onePacked(1), 1, c.left)
	}
	counts := s.countsOf(c.mask)
	smallest, sum := counts.smallest(out)
	// LLCs that are left out stay as they are: their list is never smaller than that of the
	// smallest ones, and what else remains comes on top.
	switch {
	case sum == c.left:
		return smallest, smallest // no others can be left out
	case out == 1 && counts.of(c.left) > 0:
		return one, one // the largest possible
	case out == 1:
		return u.boundFrom(smallest, 2, c.left)
	}
	return u.boundFrom(smallest, out, c.left)
}

// boundFrom returns the bounds for so many cores in at least so many LLCs, when no list is smaller
// than the one given.
func (u *uniform) boundFrom(smallest packedCounts, llcs, cores int) (least, most packedCounts) {
	ones := packedCounts{low: uint64(llcs)} // each holds one core
	if cores == llcs {
		return ones, ones
	}
	// One core in all of them but one, unless an LLC cannot hold all others.
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
