package placement

import (
	"fmt"
	"math/bits"

	"pinfold.dev/pinfold/core/cpuset"
)

// Place chooses CPUs for req out of free: the CPUs that are not exclusive for Static, the shared
// CPUs for StaticBurst. It ignores CPUs that are not online. The error wraps ErrInvalid if the
// request is invalid, and is an *InsufficientError if there is not enough room now.
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

// placeSlowly has its own copy of the request, so that the fast path needs none on the heap.
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
	if req.Policy != Static {
		return false
	}
	for _, l := range req.Limits {
		if l.NUMANodes == nil && l.CPUs < req.CPUs {
			return true
		}
	}
	return false
}

// placeUniform uses the fast solver where it applies. A false answer says only that it did not find
// a placement.
func (ix *Index) placeUniform(free cpuset.Set, req *Request) (Result, bool) {
	u := ix.uniform
	if u == nil || req.FullCores == FullCoresRequired && req.CPUs%u.threads != 0 {
		return Result{}, false
	}
	s := ix.pool.Get().(*scratch)
	defer ix.pool.Put(s)
	s.free = free
	u.gather(ix, s, free)
	// What is best without limits and keeps them is best with them.
	r, ok := ix.answerUniform(s, req, 1<<len(ix.nodes)-1)
	allowed, limited := ix.allowedNodes(free, req)
	if !limited || ok && ix.keepsLimits(r.CPUs, req) {
		return r, ok
	}
	// Limits do not look inside nodes, so the best of the nodes that can give all CPUs alone is
	// best where one node is enough.
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

// answerUniform answers a request from the gathered free CPUs of the allowed nodes.
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

// allowedNodes returns the nodes that can give all the CPUs alone as far as the limits go, and
// whether a limit binds at all.
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
