package placement

import (
	"iter"
	"math/bits"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// maxKinds is the largest number of kinds of core among which all sets are tried.
const maxKinds = 8

// placeGeneral answers any request; it is exact for criteria 1 to 5 on machines of up to
// maxSubsetNodes nodes. It returns false when nothing fits.
func (ix *Index) placeGeneral(free cpuset.Set, req *Request) (Result, bool) {
	for kinds := range ix.kindSets() {
		ofKinds := ix.ofKinds(free, kinds)
		if ofKinds.Len() < req.CPUs {
			continue
		}
		if req.Policy == StaticBurst {
			ofKinds = free // confinement asks for a number of CPUs, not for their kind
		}
		if r, ok := ix.searchGeneral(ofKinds, req); ok {
			return r, true
		}
	}
	return Result{}, false
}

// kindSets yields the sets of kinds in the order of criterion 1: the smaller first, then the one
// with the faster kinds.
func (ix *Index) kindSets() iter.Seq[mask] {
	return func(yield func(mask) bool) {
		kinds := min(ix.kinds, maxKinds)
		for size := 1; size <= kinds; size++ {
			var sets []mask
			for m := mask(1); m < 1<<kinds; m++ {
				if bits.OnesCount32(uint32(m)) == size {
					sets = append(sets, m)
				}
			}
			slices.SortFunc(sets, func(a, b mask) int {
				return int(int64(bits.Reverse32(uint32(b))) - int64(bits.Reverse32(uint32(a))))
			})
			for _, m := range sets {
				if !yield(m) {
					return
				}
			}
		}
	}
}

func (ix *Index) ofKinds(free cpuset.Set, kinds mask) cpuset.Set {
	var s cpuset.Set
	for i, k := range ix.machine.Kinds {
		if kinds>>min(i, maxKinds-1)&1 == 1 {
			s = s.Union(ix.machine.CPUsOfKind(k))
		}
	}
	return s.Intersection(free)
}

// nodeSet is a set of nodes, as indexes, with the sum of distances between them.
type nodeSet struct {
	nodes    cpuset.Set
	distance int
}

// manyTies bounds how many sets of nodes that are equal by criteria 1 to 5 are compared by the
// finer points of criterion 6.
const manyTies = 64

// searchGeneral finds the best nodes and the best CPUs in them.
func (ix *Index) searchGeneral(free cpuset.Set, req *Request) (Result, bool) {
	g := newGeneral(ix, free, req)
	var buffer [cpuset.MaxCPUs]topology.NUMAID
	for size := ix.fewestNodes(free, req.CPUs); size <= len(ix.nodes); size++ {
		search := generalSearch{g: g, exact: true}
		sets, exact := ix.nodeSets(free, size, req.CPUs)
		for set := range sets {
			if search.found && (set.distance != search.best.distance || search.done()) {
				break
			}
			if ix.freeIn(free, set.nodes) < req.CPUs {
				continue
			}
			if req.Admit != nil && !req.Admit(ix.nodeIDs(set.nodes, buffer[:])) {
				continue
			}
			search.try(set)
		}
		if search.found {
			return search.result(req, exact), true
		}
	}
	return Result{}, false
}

// generalSearch keeps the best set of nodes so far.
type generalSearch struct {
	g     *general
	found bool
	exact bool
	tried int
	best  nodeSet
	cost  cost
	pick  func() cpuset.Set
	bound *cost // no set of nodes costs less in criteria 4 and 5
}

func (s *generalSearch) try(set nodeSet) {
	k, pick, exact := s.g.solve(set.nodes)
	s.tried++
	s.exact = s.exact && exact
	if k.possible() && (!s.found || k.compare(s.cost) < 0) {
		s.found, s.best, s.cost, s.pick = true, set, k, pick
	}
}

// done reports whether going on could only improve criterion 6.
func (s *generalSearch) done() bool {
	if s.tried < manyTies {
		return false
	}
	if s.bound == nil {
		k, _, _ := s.g.withoutLimits().solve(cpuset.Range(0, cpuset.CPU(len(s.g.ix.nodes)-1)))
		s.bound = &k
	}
	return s.cost.split == s.bound.split && s.cost.llcs == s.bound.llcs
}

func (s *generalSearch) result(req *Request, exact bool) Result {
	r := Result{Exact: exact && s.exact}
	if req.Policy == StaticBurst {
		r.CPUs = s.g.ix.cpusOf(s.best.nodes).Intersection(s.g.free)
	} else {
		r.CPUs = s.pick()
	}
	r.Quality = s.g.ix.Quality(r.CPUs)
	return r
}

func (ix *Index) cpusOf(nodes cpuset.Set) cpuset.Set {
	var cpus cpuset.Set
	for i := range nodes.All() {
		cpus = cpus.Union(ix.nodes[i].cpus)
	}
	return cpus
}

func (ix *Index) freeIn(free, nodes cpuset.Set) int {
	return ix.cpusOf(nodes).Intersection(free).Len()
}

// fewestNodes returns how many nodes have n free CPUs at least.
func (ix *Index) fewestNodes(free cpuset.Set, n int) int {
	var capacity []int
	for _, node := range ix.nodes {
		capacity = append(capacity, node.cpus.Intersection(free).Len())
	}
	slices.Sort(capacity)
	sum := 0
	for i, c := range slices.Backward(capacity) {
		if sum += c; sum >= n {
			return len(capacity) - i
		}
	}
	return len(capacity) + 1
}
