package placement

import (
	"cmp"
	"math/bits"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
)

// maxDesigns is the largest number of designs of core for which all sets are tried.
const maxDesigns = 8

// placeGeneral solves any request. It is exact for criteria 1 to 5 on machines of up to
// maxSubsetNodes nodes. It returns false if nothing fits.
func (ix *Index) placeGeneral(free cpuset.Set, req *Request) (Result, bool) {
	for _, designs := range ix.designSets() {
		ofDesigns := ix.ofDesigns(free, designs)
		if ofDesigns.Len() < req.CPUs {
			continue
		}
		if req.Policy == StaticBurst {
			ofDesigns = free // static-burst has no preference for a design
		}
		if r, ok := ix.searchGeneral(ofDesigns, req); ok {
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

func (ix *Index) ofDesigns(free cpuset.Set, designs mask) cpuset.Set {
	var s cpuset.Set
	for _, k := range ix.machine.Kinds {
		if designs>>min(slices.Index(ix.designs, k.Design()), maxDesigns-1)&1 == 1 {
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

// manyTies limits how many sets of nodes that are equal by criteria 1 to 5 are compared by
// criteria 6 and 7.
const manyTies = 64

// searchGeneral finds the best nodes and the best CPUs on them.
func (ix *Index) searchGeneral(free cpuset.Set, req *Request) (Result, bool) {
	g := newGeneral(ix, free, req)
	for size := ix.fewestNodes(free, req.CPUs); size <= len(ix.nodes); size++ {
		search := generalSearch{g: g, exact: true}
		sets, exact := ix.nodeSets(free, size, req.CPUs)
		for set := range sets {
			if search.found && (set.distance != search.best.distance || search.done()) {
				break
			}
			if ix.freeIn(free, set.nodes) >= req.CPUs && ix.admits(req, set.nodes) {
				search.try(set)
			}
		}
		if search.found {
			return search.result(req, exact), true
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

// fewestNodes returns the smallest number of nodes that can have n free CPUs together.
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
