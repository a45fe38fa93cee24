package placement

import "pinfold.dev/pinfold/core/cpuset"

// search is the working memory of the fast solver for one query. Index.pool reuses it.
type search struct {
	query
	budget Budget // of a query without one
	u      *uniform
	sets   nodeSearch

	planes  []uint64 // free CPUs: bit c of plane t is thread t of core c
	whole   []uint64 // plane of the cores with all threads free
	half    []uint64 // plane of the cores with one of two threads free
	taken   []uint64 // planes of the CPUs taken
	emptied []uint64 // plane of the cores whose free threads are all taken

	llcs       []freeSum
	nodes      []freeSum
	candidates []candidate

	histogram   []int // LLCs by whole free cores
	take        []int // whole cores to take, by LLC
	bestTake    []int // take of the saved plan; bestPartial is its partialLLC
	order       []int // LLCs by whole free cores, most first
	group       []int // some of the LLCs, such as those of one node
	excluded    []int // LLCs that leaveOut left out
	bestOut     []int // those of the best choice so far
	partialLLC  int   // the LLC whose half-free core gives the rest, or -1
	bestPartial int
	usedPkgs    []bool
}

func newSearch(ix *Index) *search {
	u := ix.uniform
	if u == nil {
		return &search{}
	}
	return &search{
		u:         u,
		sets:      newNodeSearch(ix, 1),
		planes:    make([]uint64, u.threads*u.words),
		whole:     make([]uint64, u.words),
		half:      make([]uint64, u.words),
		taken:     make([]uint64, u.threads*u.words),
		emptied:   make([]uint64, u.words),
		llcs:      make([]freeSum, len(u.llcs)),
		nodes:     make([]freeSum, len(ix.nodes)),
		histogram: make([]int, u.largest+1),
		take:      make([]int, len(u.llcs)),
		bestTake:  make([]int, len(u.llcs)),
		order:     make([]int, 0, len(u.llcs)),
		group:     make([]int, 0, len(u.llcs)),
		excluded:  make([]int, 0, len(u.llcs)),
		bestOut:   make([]int, 0, len(u.llcs)),
		usedPkgs:  make([]bool, len(ix.cores)),
	}
}

// gather computes from the free set the planes, and the sums per LLC and node.
func (s *search) gather() {
	words, u := s.free.Words(), s.u
	clear(s.planes)
	for _, c := range u.copies {
		for done := 0; done < c.n; done += 64 {
			orBits(s.planes[c.plane*u.words:(c.plane+1)*u.words], c.dst+done, bitsAt(words[:], c.src+done, c.src+c.n))
		}
	}
	for w := range u.words {
		if a := s.planes[w]; u.threads == 2 {
			b := s.planes[u.words+w]
			s.half[w], s.whole[w] = a^b, a&b
		} else {
			s.whole[w] = a
		}
	}
	for n := range s.ix.nodes {
		s.nodes[n] = s.gatherNode(s.ix.nodes[n].pieces)
	}
}

// gatherNode fills s.llcs for the LLCs of a node and returns their sum.
func (s *search) gatherNode(llcs span) (total freeSum) {
	for i := llcs.from; i < llcs.to; i++ {
		l := &s.u.llcs[i]
		whole, half := l.count(s.whole), l.count(s.half)
		s.llcs[i] = newFreeSum(whole*s.u.threads+half, whole, half)
		total += s.llcs[i]
	}
	return total
}

// sumOf returns the sum over the nodes of a mask.
func (s *search) sumOf(m mask) (sum freeSum) {
	for ; m != 0; m &= m - 1 {
		sum += s.nodes[m.lowest()]
	}
	return sum
}

// place solves the query if it can. It returns false if it found no placement. The general solver
// may still find one.
func (s *search) place() (Result, bool) {
	s.gather()
	s.sets.share, s.sets.perNode = 1, s.stepsPerNode()
	switch {
	case len(s.req.Limits) > 0:
		s.sets.share = 4 // the general solver needs most of the budget
	case s.req.Admit != nil:
		s.sets.share = 2
	}
	// If the best placement without limits is within the limits, it is the best with them.
	r, ok := s.placeOn(s.ix.all())
	allowed, limited := s.allowedNodes()
	if !limited || ok && s.keepsLimits(r.CPUs) {
		return r, ok
	}
	// Limits cover whole nodes. So if one node suffices, the best placement is on one of the nodes
	// that can give all CPUs alone.
	r, ok = s.placeOn(allowed)
	return r, ok && r.Quality.NUMANodes == 1
}

// keepsLimits reports whether CPUs are within the limits of the request.
func (s *search) keepsLimits(cpus cpuset.Set) bool {
	for i, l := range s.req.Limits {
		if cpus.Intersection(s.ix.cpusOf(s.masks[i])).Len() > l.CPUs {
			return false
		}
	}
	return true
}

// allowedNodes returns the nodes that can give all the CPUs alone within the limits. limited is
// true if any limit binds.
func (s *search) allowedNodes() (allowed mask, limited bool) {
	allowed = s.ix.all()
	for _, l := range s.boundLimits() {
		limited, allowed = true, allowed&^l.nodes
	}
	return allowed, limited
}

// placeOn solves the query on the allowed nodes.
func (s *search) placeOn(allowed mask) (Result, bool) {
	c, ok := s.bestNodes(allowed)
	if !ok {
		return Result{}, false
	}
	r := Result{Exact: s.sets.exact}
	if s.req.Policy == StaticBurst {
		r.CPUs = s.ix.cpusOf(c.mask).Intersection(s.free)
		r.Quality = s.ix.Quality(r.CPUs)
		return r, true
	}
	if c.planned {
		s.recallPlan()
	} else {
		s.plan(c)
	}
	var packages int
	r.CPUs, packages = s.pick(c)
	r.Quality = Quality{Kinds: 1, NUMANodes: c.mask.len(), Distance: c.distance,
		SplitCores: c.split, LLCs: c.llcs, Packages: packages}
	return r, true
}
