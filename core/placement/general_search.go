package placement

import (
	"cmp"
	"math/bits"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
)

// maxDesigns is the largest number of designs of core for which all sets are tried.
const maxDesigns = 8

// placeGeneral solves any query. It is exact for criteria 1 to 5 on machines of up to
// maxSubsetNodes nodes. It returns false if nothing fits.
func (q query) placeGeneral() (Result, bool) {
	all := q.free
	for _, designs := range q.ix.designSets() {
		if q.free = q.ix.ofDesigns(designs).Intersection(all); q.free.Len() < q.req.CPUs {
			continue
		}
		if q.req.Policy == StaticBurst {
			q.free = all // static-burst has no preference for a design
		}
		if r, ok := q.searchGeneral(); ok {
			return r, true
		}
	}
	return Result{}, false
}

// designSets returns the sets of designs in the order of criterion 1: fewer designs first, then
// faster ones.
func (ix *Index) designSets() []mask {
	var sets []mask
	for m := mask(1); m < 1<<min(len(ix.designs), maxDesigns); m++ {
		sets = append(sets, m)
	}
	slices.SortFunc(sets, func(a, b mask) int {
		return cmp.Or(cmp.Compare(bits.OnesCount32(uint32(a)), bits.OnesCount32(uint32(b))),
			cmp.Compare(bits.Reverse32(uint32(b)), bits.Reverse32(uint32(a))))
	})
	return sets
}

func (ix *Index) ofDesigns(designs mask) cpuset.Set {
	var s cpuset.Set
	for _, k := range ix.machine.Kinds {
		if designs>>min(slices.Index(ix.designs, k.Design()), maxDesigns-1)&1 == 1 {
			s = s.Union(ix.machine.CPUsOfKind(k))
		}
	}
	return s
}

// manyTies limits how many sets of nodes that are equal by criteria 1 to 5 are compared by
// criteria 6 and 7.
const manyTies = 64

// searchGeneral finds the best nodes and the best CPUs on them.
func (q *query) searchGeneral() (Result, bool) {
	g := newGeneral(*q)
	for size := q.fewestNodes(); size <= len(q.ix.nodes); size++ {
		search := generalSearch{g: g, exact: true}
		sets, exact := q.nodeSets(size, q.req.CPUs)
		for set := range sets {
			if search.found && (set.distance != search.best.distance || search.done()) {
				break
			}
			if q.freeIn(set.nodes) >= q.req.CPUs && q.admits(set.nodes) {
				search.try(set)
			}
		}
		if search.found {
			return search.result(exact), true
		}
	}
	return Result{}, false
}

// generalSearch holds the best set of nodes found so far.
type generalSearch struct {
	g     *general
	found bool
	exact bool
	tried int
	best  nodeSet
	cost  cost
	pick  func() cpuset.Set
	bound *cost // lower bound of criteria 4 and 5 over all sets of nodes
}

func (s *generalSearch) try(set nodeSet) {
	k, pick, exact := s.g.solve(set.nodes)
	s.tried++
	s.exact = s.exact && exact
	if k.possible() && (!s.found || k.compare(s.cost) < 0) {
		s.found, s.best, s.cost, s.pick = true, set, k, pick
	}
}

// done reports whether further sets could improve only criteria 6 and 7.
func (s *generalSearch) done() bool {
	if s.tried < manyTies {
		return false
	}
	if s.bound == nil {
		unlimited := *s.g
		unlimited.limits = nil
		k, _, _ := unlimited.solve(cpuset.Range(0, cpuset.CPU(len(s.g.ix.nodes)-1)))
		s.bound = &k
	}
	return s.cost.split == s.bound.split && s.cost.llcs == s.bound.llcs
}

func (s *generalSearch) result(exact bool) Result {
	r := Result{Exact: exact && s.exact}
	if s.g.req.Policy == StaticBurst {
		r.CPUs = s.g.ix.cpusOf(s.best.nodes).Intersection(s.g.free)
	} else {
		r.CPUs = s.pick()
	}
	r.Quality = s.g.ix.Quality(r.CPUs)
	return r
}

// fewestNodes returns the smallest number of nodes that can have enough free CPUs together.
func (q *query) fewestNodes() int {
	capacity := make([]int, len(q.ix.nodes))
	for n := range capacity {
		capacity[n] = q.freeOf(n)
	}
	slices.Sort(capacity)
	sum := 0
	for i, c := range slices.Backward(capacity) {
		if sum += c; sum >= q.req.CPUs {
			return len(capacity) - i
		}
	}
	return len(capacity) + 1
}
