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
	free cpuset.Set // online
	req  Request
}

// Place chooses CPUs for req out of free. For Static, these are the CPUs that the request may take;
// for StaticBurst, the shared CPUs. It ignores CPUs that are not online. The error wraps ErrInvalid
// if the request is invalid, and is an *InsufficientError if there is not enough room now.
func (ix *Index) Place(free cpuset.Set, req Request) (Result, error) {
	if err := req.normalize(); err != nil {
		return Result{}, err
	}
	q := query{ix, free.Intersection(ix.online), req}
	if q.free.Len() >= req.CPUs && !q.wholeMachineForbids() {
		if r, ok := q.placeFast(); ok {
			return r, nil
		}
		if r, ok := q.placeGeneral(); ok {
			return r, nil
		}
	}
	return Result{}, q.insufficient()
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
func (q *query) placeFast() (Result, bool) {
	u := q.ix.uniform
	if u == nil || q.req.FullCores == FullCoresRequired && q.req.CPUs%u.threads != 0 {
		return Result{}, false
	}
	s := q.ix.pool.Get().(*search)
	defer q.ix.pool.Put(s)
	s.query = *q
	return s.place()
}

func (q *query) wholeMachineForbids() bool {
	return q.req.Policy == Static && slices.ContainsFunc(q.req.Limits, func(l Limit) bool {
		return l.NUMANodes == nil && l.CPUs < q.req.CPUs
	})
}

// boundLimit is a Limit that is below both the request and the CPUs free there.
type boundLimit struct {
	nodes cpuset.Set // of node indexes
	cpus  int
}

// boundLimits returns the limits that can affect the request.
func (q *query) boundLimits() []boundLimit {
	if q.req.Policy != Static {
		return nil
	}
	var bound []boundLimit
	for _, l := range q.req.Limits {
		if b, cpus := q.ix.limitNodes(l); l.CPUs < min(q.req.CPUs, cpus.Intersection(q.free).Len()) {
			bound = append(bound, boundLimit{nodes: b, cpus: l.CPUs})
		}
	}
	return bound
}

// admits reports whether req.Admit permits the nodes, given as indexes.
func (q *query) admits(nodes cpuset.Set) bool {
	if q.req.Admit == nil {
		return true
	}
	ids := make([]topology.NUMAID, 0, nodes.Len())
	for i := range nodes.All() {
		ids = append(ids, q.ix.nodes[i].id)
	}
	slices.Sort(ids)
	return q.req.Admit(ids)
}

// freeOf returns the number of free CPUs of node n.
func (q *query) freeOf(n int) int { return q.ix.nodes[n].cpus.Intersection(q.free).Len() }

// freeIn returns the number of free CPUs of some nodes.
func (q *query) freeIn(nodes cpuset.Set) (sum int) {
	for n := range nodes.All() {
		sum += q.freeOf(int(n))
	}
	return sum
}

// insufficient returns the error for a request that does not fit. Like placeGeneral it takes the
// query by value, so that Place does not allocate.
func (q query) insufficient() error {
	e := &InsufficientError{Want: q.req.CPUs, Have: q.most(), Policy: q.req.Policy, FullCores: q.req.FullCores}
	if e.Have < e.Want {
		return e
	}
	e.Lower, e.Higher = e.Want-1, e.Want+1
	for e.Lower > 0 && !q.fits(e.Lower) {
		e.Lower--
	}
	for e.Higher < e.Have && !q.fits(e.Higher) {
		e.Higher++
	}
	return e
}

// fits reports whether n CPUs could be placed.
func (q *query) fits(n int) bool {
	other := *q
	other.req.CPUs = n
	if _, ok := other.placeFast(); ok {
		return true
	}
	_, ok := other.placeGeneral()
	return ok
}

// most returns the largest number of CPUs that a request of this kind could get. With overlapping
// limits it may return less, because it fills the nodes one after the other.
func (q *query) most() (total int) {
	if q.req.Policy == StaticBurst {
		return q.mostShared()
	}
	left := make([]int, len(q.req.Limits))
	nodes := make([]cpuset.Set, len(q.req.Limits))
	for i, l := range q.req.Limits {
		left[i] = l.CPUs
		nodes[i], _ = q.ix.limitNodes(l)
	}
	for n := range q.ix.nodes {
		room := cpuset.MaxCPUs
		for i := range left {
			if nodes[i].Contains(cpuset.CPU(n)) {
				room = min(room, left[i])
			}
		}
		got := q.mostOf(n, room)
		total += got
		for i := range left {
			if nodes[i].Contains(cpuset.CPU(n)) {
				left[i] -= got
			}
		}
	}
	return total
}

// mostOf returns how many CPUs, at most room, a static request could get from node n.
func (q *query) mostOf(n, room int) int {
	if q.req.FullCores != FullCoresRequired {
		return min(room, q.freeOf(n))
	}
	// reachable[n] is true if some whole free cores have n threads together.
	reachable := make([]bool, min(room, cpuset.MaxCPUs)+1)
	reachable[0] = true
	for _, c := range q.ix.cores {
		if q.ix.pieces[c.piece].node != n || !cpuset.Of(c.threads...).IsSubsetOf(q.free) {
			continue
		}
		for sum := len(reachable) - 1; sum >= len(c.threads); sum-- {
			reachable[sum] = reachable[sum] || reachable[sum-len(c.threads)]
		}
	}
	sum := len(reachable) - 1
	for !reachable[sum] {
		sum--
	}
	return sum
}

// mostShared returns the largest number of shared CPUs on an admitted set of nodes, among the sets
// that the search looks at.
func (q *query) mostShared() (best int) {
	if q.req.Admit == nil {
		return q.free.Len()
	}
	for size := 1; size <= len(q.ix.nodes); size++ {
		sets, _ := q.nodeSets(size, 1)
		for set := range sets {
			if n := q.freeIn(set.nodes); n > best && q.admits(set.nodes) {
				best = n
			}
		}
	}
	return best
}
