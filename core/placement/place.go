package placement

import (
	"fmt"
	"math/bits"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
)

// Place chooses CPUs for req out of free. For Static, these are the CPUs that the request may take;
// for StaticBurst, the shared CPUs. It ignores CPUs that are not online. The error wraps ErrInvalid
// if the request is invalid, and is an *InsufficientError if there is not enough room now.
func (ix *Index) Place(free cpuset.Set, req Request) (Result, error) {
	if err := req.normalize(); err != nil {
		return Result{}, err
	}
	free = free.Intersection(ix.online)
	if ix.wholeMachineForbids(&req) || free.Len() < req.CPUs {
		return Result{}, ix.insufficient(free, req)
	}
	if r, ok := ix.placeUniform(free, &req); ok {
		return r, nil
	}
	return ix.placeSlowly(free, req)
}

// placeSlowly uses the general solver. It takes req by value, so that Place does not allocate.
func (ix *Index) placeSlowly(free cpuset.Set, req Request) (Result, error) {
	if r, ok := ix.placeGeneral(free, &req); ok {
		return r, nil
	}
	return Result{}, ix.insufficient(free, req)
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

func (ix *Index) wholeMachineForbids(req *Request) bool {
	return req.Policy == Static && slices.ContainsFunc(req.Limits, func(l Limit) bool {
		return l.NUMANodes == nil && l.CPUs < req.CPUs
	})
}

// placeUniform uses the fast solver if it applies. It returns false if it found no placement, which
// does not mean that there is none.
func (ix *Index) placeUniform(free cpuset.Set, req *Request) (Result, bool) {
	u := ix.uniform
	if u == nil || req.FullCores == FullCoresRequired && req.CPUs%u.threads != 0 {
		return Result{}, false
	}
	s := ix.pool.Get().(*scratch)
	defer ix.pool.Put(s)
	s.free = free
	u.gather(ix, s, free)
	// If the best placement without limits is within the limits, it is the best with them.
	r, ok := ix.answerUniform(s, req, 1<<len(ix.nodes)-1)
	allowed, limited := ix.allowedNodes(free, req)
	if !limited || ok && ix.keepsLimits(r.CPUs, req) {
		return r, ok
	}
	// Limits cover whole nodes. So if one node suffices, the best placement is on one of the nodes
	// that can give all CPUs alone.
	r, ok = ix.answerUniform(s, req, allowed)
	return r, ok && r.Quality.NUMANodes == 1
}

// keepsLimits reports whether CPUs are within the limits of a request.
func (ix *Index) keepsLimits(cpus cpuset.Set, req *Request) bool {
	for _, l := range req.Limits {
		if _, of := ix.limitNodes(l); cpus.Intersection(of).Len() > l.CPUs {
			return false
		}
	}
	return true
}

// answerUniform solves a request on the allowed nodes. gather must have been called.
func (ix *Index) answerUniform(s *scratch, req *Request, allowed mask) (Result, bool) {
	u, free := ix.uniform, s.free
	c, ok := ix.searchUniform(s, req, allowed)
	if !ok {
		return Result{}, false
	}
	r := Result{Exact: true}
	switch {
	case req.Policy == StaticBurst:
		r.CPUs = ix.cpusOf(maskNodes(c.mask)).Intersection(free)
		r.Quality = ix.Quality(r.CPUs)
	case c.general:
		r.CPUs = ix.pickExactly(free, c.mask, req.CPUs)
		r.Quality = ix.Quality(r.CPUs)
	default:
		if c.planned {
			s.recallPlan()
		} else {
			u.plan(ix, s, c)
		}
		var packages int
		r.CPUs, packages = u.pick(ix, s, c)
		r.Quality = Quality{Kinds: 1, NUMANodes: bits.OnesCount32(uint32(c.mask)), Distance: c.distance,
			SplitCores: c.split, LLCs: c.llcs, Packages: packages}
	}
	return r, true
}

// allowedNodes returns the nodes that can give all the CPUs alone within the limits. limited is
// true if any limit binds.
func (ix *Index) allowedNodes(free cpuset.Set, req *Request) (allowed mask, limited bool) {
	allowed = 1<<len(ix.nodes) - 1
	if req.Policy != Static {
		return allowed, false
	}
	for _, l := range req.Limits {
		if l.CPUs >= req.CPUs {
			continue
		}
		nodes, cpus := ix.limitNodes(l)
		if l.CPUs >= cpus.Intersection(free).Len() {
			continue
		}
		limited = true
		for i := range nodes.All() {
			allowed &^= 1 << i
		}
	}
	return allowed, limited
}

// most returns the largest number of CPUs that a request of this kind could get. With overlapping
// limits it may return less, because it fills the nodes one after the other.
func (ix *Index) most(free cpuset.Set, req *Request) int {
	if req.Policy == StaticBurst {
		return ix.mostShared(free, req)
	}
	left := make([]int, len(req.Limits))
	nodes := make([]cpuset.Set, len(req.Limits))
	for i, l := range req.Limits {
		left[i] = l.CPUs
		nodes[i], _ = ix.limitNodes(l)
	}
	total := 0
	for n := range ix.nodes {
		room := cpuset.MaxCPUs
		for i := range left {
			if nodes[i].Contains(cpuset.CPU(n)) {
				room = min(room, left[i])
			}
		}
		got := ix.mostOf(n, free, req, room)
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
func (ix *Index) mostOf(n int, free cpuset.Set, req *Request, room int) int {
	if req.FullCores != FullCoresRequired {
		return min(room, ix.nodes[n].cpus.Intersection(free).Len())
	}
	// reachable[n] is true if some whole free cores have n threads together.
	reachable := make([]bool, min(room, cpuset.MaxCPUs)+1)
	reachable[0] = true
	for _, c := range ix.cores {
		if ix.pieces[c.piece].node != n || !cpuset.Of(c.threads...).IsSubsetOf(free) {
			continue
		}
		for sum := len(reachable) - 1; sum >= len(c.threads); sum-- {
			reachable[sum] = reachable[sum] || reachable[sum-len(c.threads)]
		}
	}
	for sum := len(reachable) - 1; ; sum-- {
		if reachable[sum] {
			return sum
		}
	}
}

// insufficient returns the error for a request that does not fit.
func (ix *Index) insufficient(free cpuset.Set, req Request) error {
	e := &InsufficientError{Want: req.CPUs, Have: ix.most(free, &req), Policy: req.Policy, FullCores: req.FullCores}
	if e.Have < e.Want {
		return e
	}
	e.Lower, e.Higher = req.CPUs-1, req.CPUs+1
	for e.Lower > 0 && !ix.fits(free, req, e.Lower) {
		e.Lower--
	}
	for e.Higher < e.Have && !ix.fits(free, req, e.Higher) {
		e.Higher++
	}
	return e
}

// fits reports whether n CPUs could be placed.
func (ix *Index) fits(free cpuset.Set, req Request, n int) bool {
	req.CPUs = n
	if _, ok := ix.placeUniform(free, &req); ok {
		return true
	}
	_, ok := ix.placeGeneral(free, &req)
	return ok
}

// mostShared returns the largest number of shared CPUs on an admitted set of nodes, among the sets
// that the search looks at.
func (ix *Index) mostShared(free cpuset.Set, req *Request) int {
	if req.Admit == nil {
		return free.Len()
	}
	best := 0
	for size := 1; size <= len(ix.nodes); size++ {
		sets, _ := ix.nodeSets(free, size, 1)
		for set := range sets {
			if n := ix.freeIn(free, set.nodes); n > best && ix.admits(req, set.nodes) {
				best = n
			}
		}
	}
	return best
}
