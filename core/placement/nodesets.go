package placement

import (
	"cmp"
	"iter"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
)

// maxNodeSets is the largest number of sets of nodes that are enumerated on a machine of more than
// maxSubsetNodes nodes. With more sets, criterion 3 is not proved optimal.
const maxNodeSets = 20000

// nodeSet is a set of nodes, as indexes, with the sum of distances between them.
type nodeSet struct {
	nodes    cpuset.Set
	distance int
}

// nodeSets yields sets of `size` nodes in the order of their distance. exact is true if these are
// all such sets. Otherwise they are the sets that were grown greedily and have n free CPUs, and the
// nodes with the most free CPUs.
func (q *query) nodeSets(size, n int) (sets iter.Seq[nodeSet], exact bool) {
	if q.ix.subsets != nil {
		return q.ix.subsets.ofSize(size), true
	}
	if list, all := q.ix.enumerate(size); all {
		return slices.Values(list), true
	}
	return slices.Values(q.grown(size, n)), false
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

// grown returns sets of `size` nodes, grown greedily from the nodes with the most free CPUs, that
// have n free CPUs.
func (q *query) grown(size, n int) []nodeSet {
	var list []nodeSet
	for start := range q.fullest(min(maxStarts, len(q.ix.nodes))).nodes.All() {
		set := q.ix.with(nodeSet{}, int(start))
		for set.nodes.Len() < size {
			set = q.grow(set)
		}
		if q.freeIn(set.nodes) >= n {
			list = append(list, set)
		}
	}
	list = append(list, q.fullest(size))
	sortNodeSets(list)
	return list
}

// grow adds the nearest node to a set. Among equally near nodes it adds the one with the most free
// CPUs.
func (q *query) grow(set nodeSet) nodeSet {
	var best nodeSet
	most := -1
	for i := range q.ix.nodes {
		if set.nodes.Contains(cpuset.CPU(i)) {
			continue
		}
		next, cpus := q.ix.with(set, i), q.freeOf(i)
		if most < 0 || next.distance < best.distance || next.distance == best.distance && cpus > most {
			best, most = next, cpus
		}
	}
	return best
}

// fullest returns the `size` nodes with the most free CPUs.
func (q *query) fullest(size int) (set nodeSet) {
	order := make([]int, len(q.ix.nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(q.freeOf(b), q.freeOf(a)) })
	for _, i := range order[:size] {
		set = q.ix.with(set, i)
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

func newSubsets(ix *Index) *subsets {
	s := &subsets{}
	for size := 1; size <= len(ix.nodes); size++ {
		sets, _ := ix.enumerate(size) // all of them: there are at most 12,870
		s.bySize[size] = span{len(s.masks), len(s.masks) + len(sets)}
		for _, set := range sets {
			words := set.nodes.Words()
			s.masks, s.dist = append(s.masks, mask(words[0])), append(s.dist, set.distance)
		}
	}
	return s
}

// ofSize yields the sets of a size.
func (s *subsets) ofSize(size int) iter.Seq[nodeSet] {
	return func(yield func(nodeSet) bool) {
		for i := s.bySize[size].from; i < s.bySize[size].to; i++ {
			if !yield(nodeSet{maskNodes(s.masks[i]), s.dist[i]}) {
				return
			}
		}
	}
}

// maskNodes returns the indexes of the nodes of a mask.
func maskNodes(m mask) cpuset.Set {
	return cpuset.FromWords([cpuset.MaxCPUs / 64]uint64{uint64(m)})
}
