package placement

import (
	"cmp"
	"iter"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
)

// maxNodeSets is the largest number of sets of nodes that are enumerated on a machine of more than
// maxSubsetNodes nodes; beyond it criterion 3 is not proved.
const maxNodeSets = 20000

// nodeSets yields the sets of that many nodes in the order of their distance. The second result is
// false when they are not all there: then fuller nodes were grown into a set by the node that is
// nearest to the set, ties by the most free CPUs, and the sets that have n free CPUs are yielded,
// or, failing these, the nodes with the most free CPUs.
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

// enumerate returns all sets of a size, unless there are more than maxNodeSets.
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

// sortNodeSets sorts by distance; sets that come in the order of their members keep it among
// equals.
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

// maxStarts bounds from how many nodes sets are grown.
const maxStarts = 64

// grown returns sets of that size, grown greedily from the nodes with the most free CPUs.
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

// grow adds the nearest node, of equally near ones that with the most free CPUs.
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

// fullest returns the nodes with the most free CPUs.
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
