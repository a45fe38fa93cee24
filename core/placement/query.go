package placement

import (
	"fmt"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// query is one request for some of the free CPUs of a machine.
type query struct {
	ix   *Index
	free cpuset.Set // online and not isolated
	all  cpuset.Set // also those that are neither
	req  Request
	// masks are the nodes that the limits of req cover.
	masks []mask
}

// Place chooses CPUs for req out of free. For Static, these are the CPUs that the request may take;
// for StaticBurst, the shared CPUs. It ignores CPUs that are not online or isolated. The error
// wraps ErrInvalid if the request is invalid, and is an *InsufficientError if there is not enough
// room now.
func (ix *Index) Place(free cpuset.Set, req Request) (Result, error) {
	if err := req.normalize(); err != nil {
		return Result{}, err
	}
	s := ix.pool.Get().(*search)
	defer ix.pool.Put(s)
	if req.Budget == nil {
		s.budget = *NewBudget()
		req.Budget = &s.budget
	}
	s.query = query{ix: ix, free: free.Intersection(ix.balanced), all: free, req: req, masks: s.masks[:0]}
	for _, l := range req.Limits {
		s.masks = append(s.masks, ix.limitNodes(l))
		req.Budget.Spend(4 * len(l.NUMANodes))
	}
	req.Budget.Spend(2 * len(ix.cores))
	if s.free.Len() >= req.CPUs && !s.wholeMachineForbids() && s.admits(ix.all()) && !req.Budget.Exhausted() {
		if r, ok := s.placeFast(); ok {
			return r, nil
		}
		if r, ok := s.placeGeneral(); ok {
			return r, nil
		}
	}
	return Result{}, s.insufficient()
}

// normalize fills in the defaults.
func (r *Request) normalize() error {
	if r.Policy == "" {
		r.Policy = Static
	}
	if r.FullCores == "" || r.Policy == StaticBurst {
		r.FullCores = FullCoresPreferred
	}
	switch {
	case r.CPUs < 1:
		return fmt.Errorf("%w: the number of CPUs must be at least 1, not %d", ErrInvalid, r.CPUs)
	case r.Policy != Static && r.Policy != StaticBurst:
		return fmt.Errorf("%w: unknown policy %q, want %q or %q", ErrInvalid, r.Policy, Static, StaticBurst)
	case r.FullCores != FullCoresPreferred && r.FullCores != FullCoresRequired:
		return fmt.Errorf("%w: full cores must be %q or %q, not %q", ErrInvalid, FullCoresPreferred, FullCoresRequired, r.FullCores)
	}
	for _, l := range r.Limits {
		if l.CPUs < 0 {
			return fmt.Errorf("%w: a limit of %d CPUs is negative", ErrInvalid, l.CPUs)
		}
	}
	return nil
}

// placeFast uses the fast solver if it applies.
func (s *search) placeFast() (Result, bool) {
	u := s.ix.uniform
	if u == nil || s.req.FullCores == FullCoresRequired && s.req.CPUs%u.threads != 0 {
		return Result{}, false
	}
	return s.place()
}

func (q *query) wholeMachineForbids() bool {
	return q.req.Policy == Static && slices.ContainsFunc(q.req.Limits, func(l Limit) bool {
		return l.NUMANodes == nil && l.CPUs < q.req.CPUs
	})
}

// boundLimit is a Limit that is below both the request and the CPUs free there.
type boundLimit struct {
	nodes mask
	cpus  int
}

// boundLimits returns the limits that can affect the request.
func (q *query) boundLimits() []boundLimit {
	if q.req.Policy != Static {
		return nil
	}
	var bound []boundLimit
	for i, l := range q.req.Limits {
		if nodes := q.masks[i]; l.CPUs < min(q.req.CPUs, q.freeIn(nodes)) {
			bound = append(bound, boundLimit{nodes, l.CPUs})
		}
	}
	return bound
}

// stepsPerNode is the work to rate a set of nodes on a regular machine, per node: its LLCs, and
// req.Admit without what it counts itself.
func (q *query) stepsPerNode() int {
	steps := 2 * (1 + len(q.ix.pieces)/len(q.ix.nodes))
	if q.req.Admit != nil {
		steps += 8
	}
	return steps
}

// admits reports whether req.Admit permits the nodes. It does not if the budget is exhausted.
func (q *query) admits(nodes mask) bool {
	switch {
	case q.req.Admit == nil:
		return true
	case q.req.Budget.Exhausted():
		return false
	}
	ids := make([]topology.NUMAID, 0, nodes.len())
	for ; nodes != 0; nodes &= nodes - 1 {
		ids = append(ids, q.ix.nodes[nodes.lowest()].id)
	}
	slices.Sort(ids)
	return q.req.Admit(ids)
}

// freeOf returns the number of free CPUs of node n.
func (q *query) freeOf(n int) int { return q.ix.nodes[n].cpus.Intersection(q.free).Len() }

// freeIn returns the number of free CPUs of some nodes.
func (q *query) freeIn(nodes mask) (sum int) {
	for ; nodes != 0; nodes &= nodes - 1 {
		sum += q.freeOf(nodes.lowest())
	}
	return sum
}

// mayFit checks the sums that every placement must meet.
func (q *query) mayFit() bool {
	return q.free.Len() >= q.req.CPUs && q.atMost() >= q.req.CPUs && (q.req.FullCores != FullCoresRequired || q.coreSums()[q.req.CPUs])
}

// insufficient returns the error for a request that does not fit. Like placeGeneral it takes the
// query by value, so that Place does not allocate.
func (q query) insufficient() error {
	e := &InsufficientError{Want: q.req.CPUs, Policy: q.req.Policy, FullCores: q.req.FullCores, GaveUp: q.req.Budget.Exhausted(),
		Isolated: q.all.Difference(q.free).Intersects(q.ix.machine.Isolated)}
	if q.req.Policy == StaticBurst {
		if q.admits(q.ix.all()) {
			e.Have = q.free.Len()
		}
		return e
	}
	if e.Have = q.atMost(); q.req.FullCores != FullCoresRequired {
		if !e.GaveUp {
			e.Have = min(e.Have, e.Want-1)
		}
		return e
	}
	sums := q.coreSums()
	for !sums[e.Have] {
		e.Have--
	}
	if e.Have > e.Want && !sums[e.Want] {
		for e.Lower, e.Higher = e.Want-1, e.Want+1; !sums[e.Lower]; e.Lower-- {
		}
		for !sums[e.Higher] {
			e.Higher++
		}
	}
	return e
}

// coreSums returns which numbers of CPUs whole free cores add up to.
func (q *query) coreSums() []bool {
	counts := map[int]int{} // of cores, by size
	for i := range q.ix.cores {
		if threads := q.ix.cores[i].threads; cpuset.Of(threads...).IsSubsetOf(q.free) {
			counts[len(threads)]++
		}
	}
	sums := make([]bool, q.free.Len()+1)
	q.req.Budget.Spend(8*len(q.ix.cores) + 2*len(counts)*len(sums))
	sums[0] = true
	for size, count := range counts {
		used := make([]int, len(sums)) // cores of this size in a sum
		for sum := size; sum < len(sums); sum++ {
			if !sums[sum] && sums[sum-size] && used[sum-size] < count {
				sums[sum], used[sum] = true, used[sum-size]+1
			}
		}
	}
	return sums
}

// atMost returns an upper bound on the CPUs that the limits permit to take: each limit joins the
// blocks of nodes within it to one. A limit that covers only a part of some block is ignored.
func (q *query) atMost() (sum int) {
	blocks := make([]boundLimit, len(q.ix.nodes))
	q.req.Budget.Spend((8 + 2*len(q.masks)) * len(blocks))
	for n := range blocks {
		blocks[n] = boundLimit{1 << n, q.freeOf(n)}
	}
	for i, l := range q.req.Limits {
		joined, apart := boundLimit{q.masks[i], 0}, blocks[:0:0]
		for _, b := range blocks {
			if b.nodes&^joined.nodes == 0 {
				joined.cpus += b.cpus
			} else {
				apart = append(apart, b)
			}
		}
		if slices.ContainsFunc(apart, func(b boundLimit) bool { return b.nodes&joined.nodes != 0 }) {
			continue
		}
		joined.cpus = min(joined.cpus, l.CPUs)
		blocks = append(apart, joined)
	}
	for _, b := range blocks {
		sum += b.cpus
	}
	return sum
}
