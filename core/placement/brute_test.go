package placement

import (
	"cmp"
	"math/bits"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// The slow and obvious reference: it enumerates all sets of CPUs of the wanted size and computes
// the criteria directly from the machine. It shares no code with the solver.

// score is criteria 1 to 6 of the package comment, in that order.
type score struct {
	designs                       int
	slowness                      int // of the set of designs
	nodes, distance, splits, llcs int
	slow                          int // sum of the ranks of the kinds of all CPUs
}

func (a score) compare(b score) int {
	return cmp.Or(cmp.Compare(a.designs, b.designs), cmp.Compare(a.slowness, b.slowness), cmp.Compare(a.nodes, b.nodes),
		cmp.Compare(a.distance, b.distance), cmp.Compare(a.splits, b.splits), cmp.Compare(a.llcs, b.llcs),
		cmp.Compare(a.slow, b.slow))
}

// brute is a machine of at most 16 CPUs prepared for enumeration. CPU i is bit i of a set. Designs,
// NUMA nodes and LLCs are bits, too, in the order of their first occurrence (designs in the
// machine's order).
type brute struct {
	m                 *topology.Machine
	cpus              []topology.CPU
	coreOf            []uint32 // the threads of the CPU's core
	cores             []uint32
	rank              []int // of the CPU's kind
	design, node, llc []uint32
	distance          map[uint32]int // of every set of nodes
}

func newBrute(m *topology.Machine) *brute {
	b := &brute{m: m, cpus: m.CPUs, distance: map[uint32]int{}}
	var nodes []topology.NUMAID
	type llcPart struct {
		llc  topology.LLCID
		numa topology.NUMAID
	}
	var llcs []llcPart // an LLC counts as one in each NUMA node
	var designs []topology.Kind
	for _, k := range m.Kinds {
		bitOf(&designs, k.Design())
	}
	for _, c := range m.CPUs {
		var core uint32
		for j, d := range m.CPUs {
			if d.Core == c.Core {
				core |= 1 << j
			}
		}
		b.coreOf = append(b.coreOf, core)
		if !slices.Contains(b.cores, core) {
			b.cores = append(b.cores, core)
		}
		b.rank = append(b.rank, slices.Index(m.Kinds, c.Kind))
		b.design = append(b.design, bitOf(&designs, c.Kind.Design()))
		b.node = append(b.node, bitOf(&nodes, c.NUMA))
		b.llc = append(b.llc, bitOf(&llcs, llcPart{c.LLC, c.NUMA}))
	}
	for set := uint32(1); set < 1<<len(nodes); set++ {
		for i, x := range nodes {
			for j, y := range nodes {
				if i != j && set>>i&1 == 1 && set>>j&1 == 1 {
					b.distance[set] += m.Distance(x, y)
				}
			}
		}
	}
	return b
}

// bitOf returns the bit of an id in a list. It adds a new id to the list.
func bitOf[ID comparable](list *[]ID, id ID) uint32 {
	if !slices.Contains(*list, id) {
		*list = append(*list, id)
	}
	return 1 << slices.Index(*list, id)
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
	var designs, nodes, llcs uint32
	slow := 0
	for v := set; v != 0; v &= v - 1 {
		i := bits.TrailingZeros32(v)
		designs, nodes, llcs = designs|b.design[i], nodes|b.node[i], llcs|b.llc[i]
		slow += b.rank[i]
	}
	s := score{
		designs: bits.OnesCount32(designs), slow: slow, nodes: bits.OnesCount32(nodes), llcs: bits.OnesCount32(llcs),
		distance: b.distance[nodes],
		// The faster design first: a missing fast one weighs most.
		slowness: int(bits.Reverse32(^designs)),
	}
	for _, core := range b.cores {
		if held := core & set; held != 0 && held != core {
			s.splits++
		}
	}
	return s
}

// allowed reports whether a set satisfies the constraints of the request.
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

// subsetsOf yields all sets of n bits of free.
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

// best returns the best score of all allowed sets, and false if there is none.
func (b *brute) best(free cpuset.Set, req Request) (score, bool) {
	var best score
	found := false
	if b.m.Isolated != b.m.Online() {
		free = free.Difference(b.m.Isolated)
	}
	subsetsOf(b.bitsOf(free), req.CPUs, func(set uint32) {
		s := b.score(set)
		if b.allowed(set, req, s) && (!found || s.compare(best) < 0) {
			best, found = s, true
		}
	})
	return best, found
}

// freeCores returns the whole cores that a choice leaves free, of its designs, per NUMA node and per
// LLC, each list descending: criterion 7.
func (b *brute) freeCores(free, chosen uint32) (nodes, llcs []int) {
	var designs uint32
	for v := chosen; v != 0; v &= v - 1 {
		designs |= b.design[bits.TrailingZeros32(v)]
	}
	nodes, llcs = make([]int, bruteCPUs), make([]int, bruteCPUs)
	for i, core := range b.coreOf {
		if first := core&(1<<i-1) == 0; first && core&^free == 0 && core&chosen == 0 && b.design[i]&designs != 0 {
			nodes[bits.TrailingZeros32(b.node[i])]++
			llcs[bits.TrailingZeros32(b.llc[i])]++
		}
	}
	slices.Sort(nodes)
	slices.Sort(llcs)
	slices.Reverse(nodes)
	slices.Reverse(llcs)
	return nodes, llcs
}
