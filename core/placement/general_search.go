package placement

import (
	"cmp"
	"math/bits"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
)

// maxDesigns is the largest number of designs of core for which all sets are tried.
const maxDesigns = 8

// placeGeneral solves any query. It returns false if nothing fits or the budget is exhausted.
func (q query) placeGeneral() (Result, bool) {
	if q.req.Policy == StaticBurst { // without a preference for a design
		if r, ok := q.searchGeneral(); ok {
			return r, true
		}
		return Result{CPUs: q.free, Quality: q.ix.Quality(q.free)}, true // all nodes are admitted
	}
	all := q.free
	for _, designs := range q.ix.designSets {
		if !q.req.Budget.Spend(len(q.ix.cores)) {
			break
		}
		if q.free = q.ix.ofDesigns(designs).Intersection(all); !q.mayFit() {
			continue
		}
		if r, ok := q.searchGeneral(); ok {
			return r, true
		}
	}
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

// searchGeneral finds the best nodes and the best CPUs on them.
func (q *query) searchGeneral() (Result, bool) {
	nodes := len(q.ix.nodes)
	q.req.Budget.Spend(2*len(q.ix.pieces) + nodes*(nodes+8*len(q.masks)))
	g, sets := newGeneral(*q), newNodeSearch(q.ix, 2)
	sets.limits, sets.perNode = g.limits, q.stepsPerNode()
	for n := range sets.capacity {
		sets.capacity[n] = g.capacity(n)
	}
	for size := sets.start(q.req.Budget, q.req.CPUs, q.ix.all()); size <= len(q.ix.nodes); size++ {
		for above := -1; sets.next(size, above); above = sets.distance {
			if r, ok := g.bestOf(&sets); ok || q.req.Budget.Exhausted() {
				return r, ok
			}
		}
	}
	return Result{}, false
}

// capacity returns how many CPUs a node can give at most.
func (g *general) capacity(n int) int {
	cpus := g.freeOf(n)
	for _, l := range g.limits {
		if l.nodes.contains(n) {
			cpus = min(cpus, l.cpus)
		}
	}
	return cpus
}

// bestOf returns the best placement on one of the sets of nodes that were found.
func (g *general) bestOf(sets *nodeSearch) (r Result, ok bool) {
	best, on, cut := &divider{cost: impossible}, mask(0), false
	for i, set := range sets.found {
		if cut = cut || i > 0 && g.req.Budget.Exhausted(); cut {
			break
		}
		if !g.admits(set) {
			continue
		}
		d := g.divide(set)
		cut = d.cut
		if d.cost.less(best.cost) {
			best, on = d, set
		}
	}
	if best.best == nil {
		return Result{}, false
	}
	r.Exact = sets.exact && (!cut || best.cost.criteria/oneLLC == g.leastOfAll()/oneLLC)
	if r.CPUs = g.ix.cpusOf(on).Intersection(g.free); g.req.Policy == Static {
		r.CPUs = g.pick(best)
	}
	r.Quality = g.ix.Quality(r.CPUs)
	return r, true
}

// leastOfAll returns a lower bound of criteria 4 and 5 on all sets of nodes.
func (g *general) leastOfAll() uint64 {
	unlimited := *g
	unlimited.limits = nil
	return unlimited.divide(g.ix.all()).cost.criteria
}
