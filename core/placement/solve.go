package placement

import (
	"cmp"
	"math/bits"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
)

// maxDesigns is the largest number of designs of core for which all sets are tried.
const maxDesigns = 8

// place solves the query. It returns false if nothing fits or the budget is exhausted.
func (s *search) place() (Result, bool) {
	if s.req.Policy == StaticBurst { // without a preference for a design
		if r, ok := s.placeOnNodes(); ok {
			return r, true
		}
		return Result{CPUs: s.free, Quality: s.ix.Quality(s.free)}, true // all nodes are admitted
	}
	all, many := s.free, len(s.ix.cpusOfDesign) > 1
	if many && !s.mayFit() {
		return Result{}, false // and less so on some of the designs
	}
	for _, designs := range s.ix.designSets {
		if !s.req.Budget.Spend(2*len(s.ix.cores) + len(s.ix.slots)) {
			break
		}
		if many {
			s.free = s.ix.ofDesigns(designs).Intersection(all)
		}
		if r, ok := s.placeOnNodes(); ok {
			return r, true
		}
	}
	s.free = all
	return Result{}, false
}

// newDesignSets returns the sets of designs in the order of criterion 1: fewer designs first, then
// faster ones.
func newDesignSets(designs int) []uint32 {
	var sets []uint32
	for m := uint32(1); m < 1<<designs; m++ {
		sets = append(sets, m)
	}
	slices.SortFunc(sets, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(bits.OnesCount32(a), bits.OnesCount32(b)), cmp.Compare(bits.Reverse32(b), bits.Reverse32(a)))
	})
	return sets
}

func (ix *Index) ofDesigns(designs uint32) cpuset.Set {
	var s cpuset.Set
	for i, cpus := range ix.cpusOfDesign {
		if designs>>i&1 == 1 {
			s = s.Union(cpus)
		}
	}
	return s
}

// placeOnNodes finds the best nodes and the best CPUs on them.
func (s *search) placeOnNodes() (Result, bool) {
	if !s.mayFit() {
		return Result{}, false
	}
	s.sets.limits, s.sets.asks = s.bound, s.req.Admit != nil
	s.req.Budget.Spend(len(s.nodes) * (len(s.nodes) + len(s.bound)))
	for n := range s.sets.capacity {
		s.sets.capacity[n] = s.capacity(n)
	}
	for s.size = s.sets.start(s.req.Budget, s.req.CPUs); s.size <= len(s.ix.nodes); s.size++ {
		s.forget()
		for above := -1; s.sets.next(s.size, above); above = s.sets.distance {
			if s.bestOf(s.sets.found) {
				return s.result(), true
			}
			if s.req.Budget.Exhausted() {
				return Result{}, false
			}
		}
	}
	return Result{}, false
}

// result returns the CPUs of the best division or, for StaticBurst, of its nodes.
func (s *search) result() Result {
	r := Result{Exact: s.sets.exact && !s.cut}
	if r.CPUs = s.ix.cpusOf(s.best).Intersection(s.free); s.req.Policy == Static {
		r.CPUs = s.pick()
	}
	r.Quality = s.ix.Quality(r.CPUs)
	return r
}
