package placement

import (
	"cmp"
	"math/bits"
	"slices"
)

// maxSubsetNodes is the largest number of NUMA nodes for which all subsets are tabulated, and up to
// which criterion 3 is therefore exact.
const maxSubsetNodes = 16

// mask is a set of NUMA nodes: bit i stands for Index.nodes[i].
type mask uint32

// subsets are all non-empty sets of NUMA nodes, sorted by size, then by the sum of distances, then
// by the lists of their members.
type subsets struct {
	masks  []mask
	dist   []int
	bySize [maxSubsetNodes + 1]span // masks of that size
}

func newSubsets(nodes int, dist []int) *subsets {
	s := &subsets{}
	type entry struct {
		mask mask
		size int
		dist int
	}
	entries := make([]entry, 1, 1<<nodes)
	for m := mask(1); m < 1<<nodes; m++ {
		// The lowest member's distances to the others, and the set without it.
		first := bits.TrailingZeros32(uint32(m))
		rest := entries[m&(m-1)]
		sum := rest.dist
		for others := rest.mask; others != 0; others &= others - 1 {
			sum += dist[first*nodes+bits.TrailingZeros32(uint32(others))]
		}
		entries = append(entries, entry{m, rest.size + 1, sum})
	}
	entries = entries[1:]
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.dist, b.dist),
			// Of sets of equal size, the one that holds the first node in which they differ has the
			// smaller list.
			cmp.Compare(bits.Reverse32(uint32(b.mask)), bits.Reverse32(uint32(a.mask))))
	})
	for i, e := range entries {
		s.masks = append(s.masks, e.mask)
		s.dist = append(s.dist, e.dist)
		if i == 0 || entries[i-1].size != e.size {
			s.bySize[e.size].from = i
		}
		s.bySize[e.size].to = i + 1
	}
	return s
}
