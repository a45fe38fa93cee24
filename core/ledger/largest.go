package ledger

import (
	"errors"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
)

// largest returns the largest number of CPUs that the pod could get, for a pod that cannot get what
// it wants. It counts down from an upper bound, which is the answer unless bounds overlap or cores
// of different sizes do not add up. It returns an upper bound if the budget is exhausted.
func (s *staticSearch) largest(most int, p pool) (int, error) {
	for n := most; n > 0; {
		if _, ok := s.takeGreedily(n, p); ok || s.budget.Exhausted() {
			return n, nil
		}
		_, err := s.place(n)
		var short *placement.InsufficientError
		switch {
		case err == nil:
			return n, nil
		case !errors.As(err, &short):
			return 0, err
		case short.GaveUp:
			return n, nil
		}
		n = min(n-1, short.Have)
	}
	return 0, nil
}

// pool is the CPUs that can be taken of each NUMA node, in pieces that can only be taken whole: cores
// or single CPUs.
type pool [][]cpuset.Set

func (s *staticSearch) pool() pool {
	p := make(pool, len(s.account.nodes))
	if s.fullCores != placement.FullCoresRequired {
		for n, cpus := range s.account.nodes {
			for c := range cpus.Intersection(s.free).All() {
				p[n] = append(p[n], cpuset.Of(c))
			}
		}
		return p
	}
	for _, core := range s.account.index.Machine().Cores() {
		if core.CPUs.IsSubsetOf(s.free) {
			n := slices.IndexFunc(s.account.nodes, func(node cpuset.Set) bool { return node.Contains(core.CPUs.First()) })
			p[n] = append(p[n], core.CPUs)
		}
	}
	return p
}

// takeGreedily takes n CPUs that satisfy the rules from one NUMA node after the other, if that
// suffices. It is much faster than finding the best ones.
func (s *staticSearch) takeGreedily(n int, p pool) (taken cpuset.Set, ok bool) {
	for {
		missing := n
		taken = cpuset.Set{}
		for i, pieces := range p {
			s.budget.Spend(4 * (len(s.bounds) + len(pieces)))
			room := min(missing, s.room(s.account.nodes[i], taken))
			missing -= room
			for _, piece := range pieces {
				if cpus := piece.Len(); cpus <= room {
					taken, room = taken.Union(piece), room-cpus
				}
			}
			missing += room
		}
		if missing > 0 || !taken.IsSubsetOf(s.free) {
			return taken, false
		}
		if !s.breaks(taken) {
			return taken, true
		}
		if s.budget.Exhausted() {
			return taken, false
		}
	}
}

// room returns how many CPUs the bounds permit to take from a NUMA node in addition to taken.
func (s *staticSearch) room(node, taken cpuset.Set) int {
	room := node.Len()
	for i := range s.bounds {
		if b := &s.bounds[i]; b.union.Intersects(node) {
			room = min(room, b.cpus-taken.Intersection(b.union).Len())
		}
	}
	return room
}
