package placement

import (
	"cmp"
	"math/bits"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// The slow obvious reference: it looks at every set of CPUs of the wanted size and
// computes the criteria straight from the machine's description. It shares no code
// with the solvers.

// score is criteria 1 to 5 of the package comment, in that order.
type score struct {
	kinds                         int
	slowness                      int // of the set of kinds
	nodes, distance, splits, llcs int
}

func (a score) compare(b score) int {
	return cmp.Or(cmp.Compare(a.kinds, b.kinds), cmp.Compare(a.slowness, b.slowness), cmp.Compare(a.nodes, b.nodes),
		cmp.Compare(a.distance, b.distance), cmp.Compare(a.splits, b.splits), cmp.Compare(a.llcs, b.llcs))
}

// brute is a machine of at most 16 CPUs prepared for enumeration. CPU i is bit i.
type brute struct {
	cpus   []topology.CPU
	coreOf []uint32 // the threads of the CPU's core
	m      *topology.Machine
	dist   map[[2]topology.NUMAID]int
}

func newBrute(m *topology.Machine) *brute {
	b := &brute{cpus: m.CPUs, m: m, dist: map[[2]topology.NUMAID]int{}}
	for _, c := range m.CPUs {
		var core uint32
		for j, d := range m.CPUs {
			if d.Core == c.Core {
				core |= 1 << j
			}
			b.dist[[2]topology.NUMAID{c.NUMA, d.NUMA}] = m.Distance(c.NUMA, d.NUMA)
		}
		b.coreOf = append(b.coreOf, core)
	}
	return b
}

func (b *brute) bitsOf(s cpuset.Set) uint32 {
	var v uint32
	for i, c := range b.cpus {
		if s.Contains(c.ID) {
			v |= 1 << i
		}
	}
	return v
}

func (b *brute) score(set uint32) score {
	kinds, nodes, llcs, splits := map[topology.Kind]bool{}, map[topology.NUMAID]bool{}, map[topology.LLCID]bool{}, map[uint32]bool{}
	for v := set; v != 0; v &= v - 1 {
		i := bits.TrailingZeros32(v)
		c := b.cpus[i]
		kinds[c.Kind], nodes[c.NUMA], llcs[c.LLC] = true, true, true
		if b.coreOf[i]&set != b.coreOf[i] {
			splits[b.coreOf[i]] = true
		}
	}
	s := score{kinds: len(kinds), nodes: len(nodes), llcs: len(llcs), splits: len(splits)}
	for i, k := range b.m.Kinds {
		if !kinds[k] { // the faster kind first: a missing fast kind weighs most
			s.slowness += 1 << (len(b.m.Kinds) - i)
		}
	}
	for x := range nodes {
		for y := range nodes {
			if x != y {
				s.distance += b.dist[[2]topology.NUMAID{x, y}]
			}
		}
	}
	return s
}

// allowed reports whether a set keeps the request's hard rules.
func (b *brute) allowed(set uint32, req Request, s score) bool {
	if req.FullCores == FullCoresRequired && s.splits > 0 {
		return false
	}
	for _, l := range req.Limits {
		n := 0
		for i, c := range b.cpus {
			if set>>i&1 == 1 && (l.NUMANodes == nil || slices.Contains(l.NUMANodes, c.NUMA)) {
				n++
			}
		}
		if n > l.CPUs {
			return false
		}
	}
	return true
}

// subsetsOf yields the sets of n of the bits of free.
func subsetsOf(free uint32, n int, yield func(uint32)) {
	var walk func(free, chosen uint32, n int)
	walk = func(free, chosen uint32, n int) {
		if n == 0 {
			yield(chosen)
			return
		}
		for ; bits.OnesCount32(free) >= n; free &= free - 1 {
			low := free & -free
			walk(free&^low&^(low-1), chosen|low, n-1)
		}
	}
	walk(free, 0, n)
}

// best returns the best score that any allowed set has, and false without one.
func (b *brute) best(free cpuset.Set, req Request) (score, bool) {
	var best score
	found := false
	subsetsOf(b.bitsOf(free), req.CPUs, func(set uint32) {
		s := b.score(set)
		if b.allowed(set, req, s) && (!found || s.compare(best) < 0) {
			best, found = s, true
		}
	})
	return best, found
}

// rooms is criterion 6: the whole free cores that stay, per NUMA node and then
// per LLC, each list descending.
func (b *brute) rooms(freeAfter uint32) (nodes, llcs []int) {
	perNode, perLLC := map[topology.NUMAID]int{}, map[topology.LLCID]int{}
	for i, c := range b.cpus {
		perNode[c.NUMA] += 0
		perLLC[c.LLC] += 0
		first := b.coreOf[i]&(1<<i-1) == 0
		if first && b.coreOf[i]&freeAfter == b.coreOf[i] {
			perNode[c.NUMA]++
			perLLC[c.LLC]++
		}
	}
	for _, n := range perNode {
		nodes = append(nodes, n)
	}
	for _, n := range perLLC {
		llcs = append(llcs, n)
	}
	slices.Sort(nodes)
	slices.Sort(llcs)
	slices.Reverse(nodes)
	slices.Reverse(llcs)
	return nodes, llcs
}
