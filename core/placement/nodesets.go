package placement

import (
	"cmp"
	"iter"
	"math/bits"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
)

// maxNodeSets is the largest number of sets of nodes that are enumerated on a machine of more than
// maxSubsetNodes nodes. With more sets, criterion 3 is not proved optimal.
const maxNodeSets = 20000

// nodeSets yields sets of `size` nodes in the order of their distance. exact is true if these are
// all such sets. Otherwise they are the sets that were grown greedily and have n free CPUs, and the
// nodes with the most free CPUs.
func (ix *Index) nodeSets(free cpuset.Set, size, n int) (sets iter.Seq[nodeSet], exact bool) {
	if ix.subsets != nil {
		return ix.tabulated(size), true
	}
	if list, all := ix.enumerate(size); all {
		return slices.Values(list), true
	}
	return slices.Values(ix.grown(free, size, n)), false
}

func (ix *Index) tabulated(size int) iter.Seq[nodeSet] {
	return func(yield func(nodeSet) bool) {
		s := ix.subsets.bySize[size]
		for i := s.from; i < s.to; i++ {
			if !yield(nodeSet{maskNodes(ix.subsets.masks[i]), ix.subsets.dist[i]}) {
				return
			}
		}
	}
}

// enumerate returns all sets of `size` nodes, and false if there are more than maxNodeSets.
func (ix *Index) enumerate(size int) ([]nodeSet, bool) {
	n, count := len(ix.nodes), 1
	for i := range min(size, n-size) {
		if count = count * (n - i) / (i + 1); count > maxNodeSets {
			return nil, false
		}
	}
	var list []nodeSet
	var extend func(set nodeSet, from, missing int)
	extend = func(set nodeSet, from, missing int) {
		if missing == 0 {
			list = append(list, set)
			return
		}
		for i := from; i <= n-missing; i++ {
			extend(ix.with(set, i), i+1, missing-1)
		}
	}
	extend(nodeSet{}, 0, size)
	sortNodeSets(list)
	return list, true
}

// sortNodeSets sorts by distance and keeps the order of sets at equal distance.
func sortNodeSets(list []nodeSet) {
	slices.SortStableFunc(list, func(a, b nodeSet) int { return cmp.Compare(a.distance, b.distance) })
}

// with adds node i to a set.
func (ix *Index) with(set nodeSet, i int) nodeSet {
	for j := range set.nodes.All() {
		set.distance += ix.dist[i*len(ix.nodes)+int(j)]
	}
	set.nodes.Add(cpuset.CPU(i))
	return set
}

// maxStarts is the largest number of nodes from which sets are grown.
const maxStarts = 64

// grown returns sets of `size` nodes, grown greedily from the nodes with the most free CPUs.
func (ix *Index) grown(free cpuset.Set, size, n int) []nodeSet {
	var list []nodeSet
	for start := range ix.fullest(free, min(maxStarts, len(ix.nodes))).nodes.All() {
		set := ix.with(nodeSet{}, int(start))
		for set.nodes.Len() < size {
			set = ix.grow(set, free)
		}
		if ix.freeIn(free, set.nodes) >= n {
			list = append(list, set)
		}
	}
	list = append(list, ix.fullest(free, size))
	sortNodeSets(list)
	return list
}

// grow adds the nearest node to a set. Among equally near nodes it adds the one with the most free
// CPUs.
func (ix *Index) grow(set nodeSet, free cpuset.Set) nodeSet {
	var best nodeSet
	most := -1
	for i, node := range ix.nodes {
		if set.nodes.Contains(cpuset.CPU(i)) {
			continue
		}
		next, cpus := ix.with(set, i), node.cpus.Intersection(free).Len()
		if most < 0 || next.distance < best.distance || next.distance == best.distance && cpus > most {
			best, most = next, cpus
		}
	}
	return best
}

// fullest returns the `size` nodes with the most free CPUs.
func (ix *Index) fullest(free cpuset.Set, size int) nodeSet {
	order := make([]int, len(ix.nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(ix.nodes[b].cpus.Intersection(free).Len(), ix.nodes[a].cpus.Intersection(free).Len())
	})
	var set nodeSet
	for _, i := range order[:size] {
		set = ix.with(set, i)
	}
	return set
}

// maxSubsetNodes is the largest number of NUMA nodes for which all subsets are tabulated. Up to
// this number criterion 3 is exact.
const maxSubsetNodes = 16

// mask is a set of NUMA nodes: bit i stands for Index.nodes[i].
type mask uint32

// subsets are all non-empty sets of NUMA nodes, sorted by size, then by the sum of distances, then
// by their members.
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
		// Distances from the lowest member to the others, plus those of the set without it.
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
			// Of two sets of equal size, the one with the first node in which they differ comes
			// first.
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
