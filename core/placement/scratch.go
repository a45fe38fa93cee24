package placement

import "pinfold.dev/pinfold/core/cpuset"

// scratch is the working memory of one request. Index.pool reuses it.
type scratch struct {
	free cpuset.Set
	// Of the uniform solver.
	planes      []uint64 // free CPUs: bit c of plane t is thread t of core c
	class       []uint64 // plane f-1: the cores with exactly f free threads
	taken       []uint64 // planes of the CPUs taken
	emptied     []uint64 // mask of the cores whose free threads are all taken
	llcs        []freeSum
	nodes       []freeSum
	nodeCounts  []packedCounts
	quads       [maxSubsetNodes / 4][16]freeSum // sums over the subsets of four nodes
	candidates  []candidate
	histogram   []int // LLCs by whole free cores
	take        []int // whole cores to take, by LLC
	bestTake    []int // take of the saved plan; bestPartial is its partialLLC
	order       []int // LLCs by whole free cores, most first
	group       []int // some of the LLCs, such as those of one node
	excluded    []int // LLCs that leaveOut left out
	bestOut     []int // those of the best choice so far
	partialLLC  int   // the LLC whose partly free core gives the rest, or -1
	bestPartial int
	usedPkgs    []bool
}

func newScratch(ix *Index) *scratch {
	s := &scratch{}
	if u := ix.uniform; u != nil {
		s.planes = make([]uint64, u.threads*u.words)
		s.class = make([]uint64, u.threads*u.words)
		s.taken = make([]uint64, u.threads*u.words)
		s.emptied = make([]uint64, u.words)
		s.llcs = make([]freeSum, len(u.llcs))
		s.nodes = make([]freeSum, len(ix.nodes))
		s.nodeCounts = make([]packedCounts, len(ix.nodes))
		s.candidates = make([]candidate, 0, len(ix.subsets.masks))
		s.histogram = make([]int, u.largest+1)
		s.take = make([]int, len(u.llcs))
		s.bestTake = make([]int, len(u.llcs))
		s.order = make([]int, 0, len(u.llcs))
		s.group = make([]int, 0, len(u.llcs))
		s.excluded = make([]int, 0, len(u.llcs))
		s.bestOut = make([]int, 0, len(u.llcs))
		s.usedPkgs = make([]bool, len(ix.cores))
	}
	return s
}

// sumOf returns the sum over the nodes of a mask. It has no branches; nodes that the machine does
// not have count as zero.
func (s *scratch) sumOf(m mask) freeSum {
	return s.quads[0][m&15].plus(s.quads[1][m>>4&15]).plus(s.quads[2][m>>8&15]).plus(s.quads[3][m>>12&15])
}

// keepPlan saves s.take and s.partialLLC. recallPlan restores them.
func (s *scratch) keepPlan() {
	s.take, s.bestTake, s.bestPartial = s.bestTake, s.take, s.partialLLC
}

func (s *scratch) recallPlan() {
	s.take, s.bestTake, s.partialLLC = s.bestTake, s.take, s.bestPartial
}

// fillQuads fills s.quads, which sumOf uses.
func (s *scratch) fillQuads() {
	for q := 0; q*4 < len(s.nodes); q++ {
		quad := s.nodes[q*4 : min(q*4+4, len(s.nodes))]
		sums := &s.quads[q]
		for i, n := range quad {
			bit := 1 << i
			for low := range bit {
				sums[bit+low] = sums[low].plus(n)
			}
		}
	}
}
