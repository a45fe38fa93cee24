package ledger

import (
	"errors"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
)

// largest returns the largest number of CPUs that a pod could be given that is
// refused the number it wants. It goes down from what the bounds permit, which is
// the answer unless bounds overlap, or cores of different sizes do not add up.
func (s *staticSearch) largest() (int, error) {
	lumps, size := s.lumps()
	var pool cpuset.Set
	for _, l := range lumps {
		pool = pool.Union(l)
	}
	for n := s.atMost(pool, size); n > 0; n = min(n-size, s.atMost(pool, size)) {
		if s.grabs(n, lumps) {
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

// lumps are the sets of CPUs that can only be taken together: free CPUs one by
// one, or the cores that are free as a whole. The size of each is a multiple of
// size.
func (s *staticSearch) lumps() (lumps []cpuset.Set, size int) {
	if s.fullCores != placement.FullCoresRequired {
		for c := range s.free.All() {
			lumps = append(lumps, cpuset.Of(c))
		}
		return lumps, 1
	}
	for _, core := range s.books.index.Machine().Cores() {
		if core.CPUs.IsSubsetOf(s.free) {
			lumps = append(lumps, core.CPUs)
			size = greatestCommonDivisor(core.CPUs.Len(), size)
		}
	}
	return lumps, max(size, 1)
}

func greatestCommonDivisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// block is some NUMA nodes of which at most so many CPUs can be taken.
type block struct {
	union cpuset.Set
	cpus  int
}

// atMost returns a number of CPUs out of the pool that cannot be exceeded, when
// they come in multiples of size. Each bound joins the blocks of NUMA nodes within
// it to one; a bound that has only a part of some block is left out. Without such
// ones, and with lumps of that size only, the number can be reached.
func (s *staticSearch) atMost(pool cpuset.Set, size int) int {
	down := func(n int) int { return n - n%size }
	if len(s.bounds) == 0 {
		return down(min(s.machine, pool.Len()))
	}
	blocks := make([]block, len(s.books.nodes))
	for i := range s.books.nodes {
		cpus := s.books.nodes[i].cpus
		blocks[i] = block{cpus, down(cpus.Intersection(pool).Len())}
	}
	for i := range s.bounds {
		blocks = join(blocks, s.bounds[i].union, down(s.bounds[i].cpus))
	}
	sum := 0
	for _, b := range blocks {
		sum += b.cpus
	}
	return down(min(s.machine, sum))
}

// join makes one block of those within a union, which has at most so many CPUs.
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

// grabs reports whether n CPUs that keep the rules are found by taking one lump
// after the other, which is much quicker than looking for the best ones.
func (s *staticSearch) grabs(n int, lumps []cpuset.Set) bool {
	for {
		taken, count := cpuset.Set{}, 0
		for _, l := range lumps {
			if size := l.Len(); count+size <= n && s.permits(taken.Union(l)) {
				taken, count = taken.Union(l), count+size
			}
		}
		if count < n {
			return false
		}
		if !s.breaks(taken) {
			return true
		}
	}
}

// permits reports whether the bounds let these CPUs be taken together.
func (s *staticSearch) permits(taken cpuset.Set) bool {
	if !taken.IsSubsetOf(s.free) {
		return false
	}
	for i := range s.bounds {
		if taken.Intersection(s.bounds[i].union).Len() > s.bounds[i].cpus {
			return false
		}
	}
	return true
}
