package placement

import "pinfold.dev/pinfold/core/cpuset"

// search finds the cheapest CPUs for one query. Every criterion from 4 on is a sum over cores, so
// dynamic programming finds the least cost of each number of CPUs ([table]): of the cores of a slot,
// then of a piece, a node and a set of nodes ([chain]). Pieces with equally many cores of each slot
// have one table ([shape]). A node must give what the fullest other nodes cannot, so tables begin
// there and not at 0.
//
// Index.pool reuses the memory, so that a placement allocates nothing.
type search struct {
	query
	budget Budget  // of a query without one
	bound  []limit // the limits that can affect the request
	sets   nodeSearch
	division

	open   []int // by core: the threads that can be taken
	counts []int // by Index.slots: the cores of the slot
	pieces []openPiece
	nodes  []openNode

	known             map[shapeKey]int // the positions in shapes
	shapes            []shape
	costs             arena
	ofPieces, ofSlots []int // what one node and one piece give
}

// openSum is what is free in a piece or in a node.
type openSum struct {
	cpus  int
	whole int // cores with all threads free
}

type openPiece struct {
	openSum
	shape int // of the last question about it
}

type openNode struct {
	openSum
	solved bool
	chain  // of its pieces
	table  // with the weight of the node
}

func newSearch(ix *Index) *search {
	return &search{
		sets:   newNodeSearch(ix),
		open:   make([]int, len(ix.cores)),
		counts: make([]int, len(ix.slots)),
		pieces: make([]openPiece, len(ix.pieces)),
		nodes:  make([]openNode, len(ix.nodes)),
		known:  map[shapeKey]int{},
	}
}

// gather counts what can be taken of each core, slot, piece and node.
func (s *search) gather() {
	words := s.free.Words()
	clear(s.counts)
	for i := range s.ix.cores {
		c := &s.ix.cores[i]
		n := c.held(&words)
		if n < len(c.threads) && s.req.FullCores == FullCoresRequired {
			n = 0
		}
		if s.open[i] = n; n > 0 {
			s.counts[c.slots+n-1]++
		}
	}
	for n := range s.nodes {
		s.nodes[n].openSum = openSum{}
	}
	for i := range s.pieces {
		p := &s.ix.pieces[i]
		var sum openSum
		for at := p.slots.from; at < p.slots.to; at++ {
			slot := &s.ix.slots[at]
			sum.cpus += slot.free * s.counts[at]
			if slot.free == slot.threads {
				sum.whole += s.counts[at]
			}
		}
		s.pieces[i].openSum = sum
		s.nodes[p.node].cpus += sum.cpus
		s.nodes[p.node].whole += sum.whole
	}
}

// capacity returns how many CPUs a node can give at most.
func (s *search) capacity(n int) int {
	cpus := s.nodes[n].cpus
	for _, l := range s.bound {
		if l.nodes.contains(n) {
			cpus = min(cpus, l.cpus)
		}
	}
	return cpus
}

// forget drops the tables: they are only for sets of one size.
func (s *search) forget() {
	clear(s.known)
	s.shapes, s.costs = s.shapes[:0], s.costs[:0]
	for n := range s.nodes {
		s.nodes[n].solved = false
	}
}

// node returns what a node can give in a set of the size that is searched.
func (s *search) node(n int) *openNode {
	node := &s.nodes[n]
	if node.solved {
		return node
	}
	node.solved = true
	low, high := s.least(1<<n), min(s.sets.capacity[n], s.req.CPUs)
	node.parts = node.parts[:0]
	for p := s.ix.nodes[n].pieces.from; p < s.ix.nodes[n].pieces.to; p++ {
		if s.pieces[p].cpus == 0 {
			node.parts = append(node.parts, nothing)
		} else {
			node.parts = append(node.parts, s.piece(p, max(0, low-node.cpus+s.pieces[p].cpus)))
		}
	}
	node.solve(low, high, &s.costs, s.req.Budget)
	all := node.rest(0)
	node.from, node.costs = all.from, append(s.costs.take(len(all.costs)), all.costs...)
	if node.most() > high { // of a single piece
		node.costs = node.costs[:max(0, high-node.from+1)]
	}
	weights := s.ix.nodeWeights
	for i := range node.costs {
		if k := &node.costs[i]; k.possible() {
			k.nodes = weights[node.whole] - weights[node.whole-int(k.nodes)]
		}
	}
	return node
}

// least returns how many CPUs some nodes must give in every set of the size that is searched.
func (s *search) least(nodes mask) int {
	s.req.Budget.Spend(1 + len(s.nodes)/8)
	return max(0, s.req.CPUs-s.sets.most(s.ix.all()&^nodes, s.size-nodes.len()))
}

// shapeKey is what the table of a piece depends on.
type shapeKey struct {
	alike, least uint16
	counts       [8]uint16
}

// shape is what pieces with equally many cores of each slot can give.
type shape struct {
	chain       // of the slots that have cores
	slots []int // by part: the slot, counted from the piece's first
	table       // with the weight of the LLC
}

// piece returns the costs of taking `least` or more CPUs from a piece, including its LLC. Pieces of
// the same shape have them in common.
func (s *search) piece(p, least int) table {
	slots := s.ix.pieces[p].slots
	s.req.Budget.Spend(4)
	key := shapeKey{alike: s.ix.pieces[p].alike, least: uint16(least)}
	remember := slots.len() <= len(key.counts)
	if remember {
		for i, n := range s.counts[slots.from:slots.to] {
			key.counts[i] = uint16(n)
		}
		if at, ok := s.known[key]; ok {
			s.pieces[p].shape = at
			return s.shapes[at].table
		}
		s.known[key] = len(s.shapes)
	}
	s.pieces[p].shape = len(s.shapes)
	s.shapes = grow(s.shapes)
	sh := &s.shapes[len(s.shapes)-1]
	s.solveShape(sh, slots, least)
	weights, whole := s.ix.llcWeights, s.pieces[p].whole
	all := sh.rest(0)
	sh.from, sh.costs = all.from, append(s.costs.take(len(all.costs)), all.costs...)
	for i := range sh.costs {
		if k := &sh.costs[i]; k.possible() && sh.from+i > 0 {
			k.criteria += oneLLC
			k.llcs = weights[whole] - weights[whole-int(k.nodes)]
		}
	}
	return sh.table
}

// solveShape computes the least costs of taking CPUs from the cores of some slots.
func (s *search) solveShape(sh *shape, slots span, least int) {
	s.req.Budget.Spend(slots.len())
	sh.parts, sh.slots = sh.parts[:0], sh.slots[:0]
	for at := slots.from; at < slots.to; at++ {
		if s.counts[at] > 0 {
			sh.slots = append(sh.slots, at-slots.from)
			sh.parts = append(sh.parts, s.takeSlot(s.ix.slots[at], s.counts[at]))
		}
	}
	sh.solve(least, s.req.CPUs, &s.costs, s.req.Budget)
}

// takeSlot returns the costs of taking CPUs from alike cores, one core after the other.
func (s *search) takeSlot(slot slot, cores int) (t table) {
	most := min(cores*slot.free, s.req.CPUs)
	s.req.Budget.Spend(most)
	t.costs = s.costs.take(most + 1)
	for n := range most + 1 {
		used := (n + slot.free - 1) / slot.free
		k := cost{criteria: uint64(n * slot.kind)}
		if slot.free < slot.threads {
			k.criteria += uint64(used) * oneSplit
		} else {
			k.nodes = uint64(used)
			k.criteria += uint64(used-n/slot.free) * oneSplit
		}
		if s.req.FullCores == FullCoresRequired && k.criteria >= oneSplit {
			k = impossible
		}
		t.costs = append(t.costs, k)
	}
	return t
}

// pick returns the CPUs of the best division.
func (s *search) pick() (cpus cpuset.Set) {
	for i, set := 0, s.best; set != 0; i, set = i+1, set&(set-1) {
		n := set.lowest()
		s.ofPieces = s.node(n).divide(s.ofPieces[:0], s.shares[i])
		for at, ofPiece := range s.ofPieces {
			if ofPiece > 0 {
				s.pickPiece(&cpus, s.ix.nodes[n].pieces.from+at, ofPiece)
			}
		}
	}
	return cpus
}

// pickPiece adds n CPUs of a piece.
func (s *search) pickPiece(cpus *cpuset.Set, p, n int) {
	piece, sh := &s.ix.pieces[p], &s.shapes[s.pieces[p].shape]
	s.ofSlots = sh.divide(s.ofSlots[:0], n)
	for i, slot := range sh.slots {
		s.counts[piece.slots.from+slot] = s.ofSlots[i] // nothing counts after a choice
	}
	for i := piece.cores.from; i < piece.cores.to; i++ {
		if s.open[i] == 0 {
			continue
		}
		missing := &s.counts[s.ix.cores[i].slots+s.open[i]-1]
		for _, t := range s.ix.cores[i].threads {
			if *missing > 0 && s.free.Contains(t) {
				cpus.Add(t)
				*missing--
			}
		}
	}
}
