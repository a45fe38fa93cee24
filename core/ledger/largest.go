package ledger

import (
	"errors"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
)

// largest returns the largest number of CPUs that the pod could get, for a pod that cannot get what
// it wants. It counts down from the number that the bounds permit, which is the answer unless
// bounds overlap or cores of different sizes do not add up.
func (s *staticSearch) largest() (int, error) {
	p := s.pool()
	for n := s.atMost(p.cpus, p.size); n > 0; n = min(n-p.size, s.atMost(p.cpus, p.size)) {
		if s.takesGreedily(n, &p) {
			return n, nil
		}
		_, err := s.place(n)
		if err == nil {
			return n, nil
		}
		if !errors.As(err, new(*placement.InsufficientError)) {
			return 0, err
		}
	}
	return 0, nil
}

// pool is the CPUs that can be taken.
type pool struct {
	cpus cpuset.Set
	// cores can only be taken whole. It is nil if single CPUs can be taken.
	cores []cpuset.Set
	size  int // the number of CPUs of every core is a multiple of size
}

func (s *staticSearch) pool() pool {
	if s.fullCores != placement.FullCoresRequired {
		return pool{cpus: s.free, size: 1}
	}
	p := pool{cores: []cpuset.Set{}}
	for _, core := range s.account.index.Machine().Cores() {
		if core.CPUs.IsSubsetOf(s.free) {
			p.cpus = p.cpus.Union(core.CPUs)
			p.cores = append(p.cores, core.CPUs)
			p.size = greatestCommonDivisor(core.CPUs.Len(), p.size)
		}
	}
	p.size = max(p.size, 1)
	return p
}

// of returns at most `most` of the CPUs of a NUMA node.
func (p *pool) of(node cpuset.Set, most int) (some cpuset.Set) {
	if p.cores == nil {
		for c := range p.cpus.Intersection(node).All() {
			if most == 0 {
				break
			}
			some.Add(c)
			most--
		}
		return some
	}
	for _, core := range p.cores {
		if n := core.Len(); n <= most && core.IsSubsetOf(node) {
			some = some.Union(core)
			most -= n
		}
	}
	return some
}

func greatestCommonDivisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// block is a set of NUMA nodes from which at most the given number of CPUs can be taken.
type block struct {
	union cpuset.Set
	cpus  int
}

// atMost returns an upper bound on the CPUs that can be taken from the pool in multiples of size.
func (s *staticSearch) atMost(pool cpuset.Set, size int) int {
	n := min(s.machine, s.reach(pool, size))
	return n - n%size
}

// reach is atMost without the limit of the whole machine. Each bound joins the blocks within it. A
// bound that covers only a part of some block is ignored. If there is no such bound, and all cores
// have that size, the number can be reached.
func (s *staticSearch) reach(pool cpuset.Set, size int) int {
	down := func(n int) int { return n - n%size }
	if len(s.bounds) == 0 {
		return down(pool.Len())
	}
	blocks := make([]block, len(s.account.nodes))
	for i := range s.account.nodes {
		cpus := s.account.nodes[i]
		blocks[i] = block{cpus, down(cpus.Intersection(pool).Len())}
	}
	for i := range s.bounds {
		blocks = join(blocks, s.bounds[i].union, down(s.bounds[i].cpus))
	}
	sum := 0
	for _, b := range blocks {
		sum += b.cpus
	}
	return sum
}

// join replaces the blocks within a union by one block of at most atMost CPUs.
func join(blocks []block, union cpuset.Set, atMost int) []block {
	for _, b := range blocks {
		if b.union.Intersects(union) && !b.union.IsSubsetOf(union) {
			return blocks
		}
	}
	sum, apart := 0, blocks[:0]
	for _, b := range blocks {
		if b.union.IsSubsetOf(union) {
			sum += b.cpus
		} else {
			apart = append(apart, b)
		}
	}
	return append(apart, block{union, min(sum, atMost)})
}

// takesGreedily reports whether n CPUs that satisfy the rules are found by taking CPUs from one
// NUMA node after the other. That is much faster than finding the best ones.
func (s *staticSearch) takesGreedily(n int, p *pool) bool {
	for {
		taken, missing := cpuset.Set{}, n
		for i := range s.account.nodes {
			node := s.account.nodes[i]
			some := p.of(node, min(missing, s.room(node, taken)))
			taken, missing = taken.Union(some), missing-some.Len()
		}
		if missing > 0 || !taken.IsSubsetOf(s.free) {
			return false
		}
		if !s.breaks(taken) {
			return true
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
