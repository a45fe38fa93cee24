package placement

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
)

// mask is a set of NUMA nodes: bit i stands for Index.nodes[i].
type mask uint64

func (m mask) len() int            { return bits.OnesCount64(uint64(m)) }
func (m mask) lowest() int         { return bits.TrailingZeros64(uint64(m)) }
func (m mask) contains(n int) bool { return m>>n&1 == 1 }

// nodeSearch finds the sets of NUMA nodes that are the best by criteria 2 and 3. The size k of the
// sets is fixed: the k nodes with the most free CPUs must have n. Since k is minimal, every choice
// on k nodes uses each of them. The sets of k nodes at the least distance are found by a
// depth-first search with bounds on CPUs and distance; the other criteria decide between these. If
// none is possible because of limits, the next distance follows, then one node more. Without
// limits, each partial set has a completion with enough CPUs, and the nearest nodes are tried
// first, so the first set is found at once, and an exhausted budget costs only the proof that no
// other set is nearer.
type nodeSearch struct {
	ix       *Index
	budget   *Budget
	want     int
	capacity []int // by node: how many CPUs it can give
	fullest  []int // the nodes, those with the largest capacity first
	added    []int // by depth and node: the distance that the node would add to the set

	limits  []limit
	asks    bool // Request.Admit is asked about the sets
	reserve int  // the steps that must remain

	above int // only sets at a larger distance are wanted
	// found are all sets at the least distance, in ascending order of their members.
	found    []mask
	distance int
	cut      bool // the budget ended this search
	exact    bool // it ended none
}

func newNodeSearch(ix *Index) nodeSearch {
	n := len(ix.nodes)
	return nodeSearch{ix: ix, capacity: make([]int, n), fullest: make([]int, 0, n), added: make([]int, (n+1)*n)}
}

// start prepares the search for sets with `want` CPUs together. The capacities must be set. It
// returns the smallest size of such sets, or more than there are nodes.
func (s *nodeSearch) start(budget *Budget, want int) (size int) {
	s.budget, s.want, s.exact = budget, want, true
	s.fullest = s.fullest[:0]
	for n, c := range s.capacity {
		at := len(s.fullest)
		s.fullest = append(s.fullest, n)
		for ; at > 0 && s.capacity[s.fullest[at-1]] < c; at-- {
			s.fullest[at] = s.fullest[at-1]
		}
		s.fullest[at] = n
	}
	for size = 1; size <= len(s.capacity) && s.most(s.ix.all(), size) < want; size++ {
	}
	return size
}

// most returns the CPUs of the `count` fullest nodes of a set.
func (s *nodeSearch) most(nodes mask, count int) (cpus int) {
	for _, n := range s.fullest {
		if count == 0 {
			break
		}
		if nodes.contains(n) {
			cpus += s.capacity[n]
			count--
		}
	}
	return cpus
}

// next finds the sets of a size at the least distance above the given one. It reports whether it
// found any.
func (s *nodeSearch) next(size, above int) bool {
	s.above, s.distance, s.found, s.cut = above, math.MaxInt, s.found[:0], false
	s.reserve = s.budget.steps / 8 // for the other criteria
	if len(s.limits) > 0 || s.asks {
		s.reserve = s.budget.steps / 2 // and for further searches, or for what Request.Admit counts
	}
	clear(s.added[:len(s.capacity)])
	s.extend(0, s.ix.all(), size, 0, 0)
	if size > 1 {
		slices.SortFunc(s.found, func(a, b mask) int {
			return cmp.Compare(bits.Reverse64(uint64(b)), bits.Reverse64(uint64(a)))
		})
	}
	return len(s.found) > 0
}

// extend adds `missing` of the candidates to a set that has some CPUs and a distance.
func (s *nodeSearch) extend(set, candidates mask, missing, cpus, distance int) {
	nodes := len(s.capacity)
	added := s.added[set.len()*nodes:][:2*nodes]
	if missing == 1 {
		s.finish(set, candidates, cpus, distance, added)
		return
	}
	pairs := missing * (missing - 1) / 2
	for candidates.len() >= missing && cpus+s.most(candidates, missing) >= s.want {
		nearest := candidates.lowest()
		for rest := candidates & (candidates - 1); rest != 0; rest &= rest - 1 {
			if n := rest.lowest(); added[n] < added[nearest] {
				nearest = n
			}
		}
		// Every missing node is at least as far from the set, and at least minDist from the others.
		if distance+missing*added[nearest]+pairs*s.ix.minDist > s.distance {
			return
		}
		if s.spent(2 * nodes) {
			return
		}
		candidates &^= 1 << nearest
		row := s.ix.dist[nearest*nodes:][:nodes]
		for rest := candidates; rest != 0; rest &= rest - 1 {
			n := rest.lowest()
			added[nodes+n] = added[n] + row[n]
		}
		s.extend(set|1<<nearest, candidates, missing-1, s.with(set, cpus, nearest), distance+added[nearest])
	}
}

// stepsPerSet is the work for one set that is found, without its rating by the other criteria.
const stepsPerSet = 16

// finish completes a set by one more node.
func (s *nodeSearch) finish(set, candidates mask, cpus, distance int, added []int) {
	for rest := candidates; rest != 0; rest &= rest - 1 {
		n := rest.lowest()
		total := distance + added[n]
		if total > s.distance || total <= s.above || s.with(set, cpus, n) < s.want {
			continue
		}
		if s.spent(stepsPerSet) {
			return
		}
		if total < s.distance {
			s.distance, s.found = total, s.found[:0]
		}
		s.found = append(s.found, set|1<<n)
	}
}

// with returns an upper bound on the CPUs of a set with one more node, if the set has at most
// `cpus`.
func (s *nodeSearch) with(set mask, cpus, node int) int {
	cpus += s.capacity[node]
	if len(s.limits) == 0 {
		return cpus
	}
	s.budget.Spend(len(s.limits))
	cpus = 0
	set |= 1 << node
	for rest := set; rest != 0; rest &= rest - 1 {
		cpus += s.capacity[rest.lowest()]
	}
	for _, l := range s.limits { // what exceeds limits adds up if no node is in both
		over := -l.cpus
		for rest := l.nodes & set; rest != 0; rest &= rest - 1 {
			over += s.capacity[rest.lowest()]
		}
		if over > 0 {
			cpus -= over
			set &^= l.nodes
		}
	}
	return cpus
}

// spent counts steps and reports whether the search must end. Without limits it goes on until it
// has found a first set.
func (s *nodeSearch) spent(steps int) bool {
	s.budget.Spend(steps)
	s.cut = s.cut || s.budget.steps <= s.reserve
	s.exact = s.exact && !s.cut
	return s.cut && (len(s.found) > 0 || s.above >= 0 || len(s.limits) > 0)
}

// distanceOf returns the sum of the distances between the nodes of a set.
func (ix *Index) distanceOf(set mask) (sum int) {
	for a := set; a != 0; a &= a - 1 {
		for b := a & (a - 1); b != 0; b &= b - 1 {
			sum += ix.dist[a.lowest()*len(ix.nodes)+b.lowest()]
		}
	}
	return sum
}

// cpusOf returns the CPUs of the nodes of a set.
func (ix *Index) cpusOf(set mask) (cpus cpuset.Set) {
	for ; set != 0; set &= set - 1 {
		cpus = cpus.Union(ix.nodes[set.lowest()].cpus)
	}
	return cpus
}
