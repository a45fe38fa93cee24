package placement

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// Index is a machine prepared for placement. It is immutable and safe for concurrent use. What
// belongs to one request is in a [search].
type Index struct {
	machine  *topology.Machine
	balanced cpuset.Set // the CPUs that can be chosen
	// The machine in tree order. Each level is sorted by the lowest CPU within its parent.
	nodes                   []node
	pieces                  []piece
	cores                   []core
	slots                   []slot
	designOf                []int                   // by kind; designs are numbered from the fastest on
	cpusOfDesign            []cpuset.Set            // by design; the last of maxDesigns has all others
	designSets              []uint32                // see newDesignSets
	position                map[topology.NUMAID]int // in nodes
	dist                    []int                   // between nodes i and j at i*len(nodes)+j, both directions added
	minDist                 int                     // the least of them
	nodeWeights, llcWeights []uint64                // by the whole cores that are free

	pool sync.Pool // of *search
}

// node is a NUMA node with CPUs, or all CPUs without a NUMA node.
type node struct {
	id     topology.NUMAID
	cpus   cpuset.Set
	pieces span
	cores  span
}

// piece is the part of one LLC that lies in one NUMA node.
type piece struct {
	llc, node int
	cores     span
	slots     span
	alike     uint16 // equal for pieces whose slots are equal
}

// slot is where a search counts the cores of a piece that are alike: of one kind and number of
// threads, of which some are free.
type slot struct{ threads, free, kind int }

// core is a physical core with its online threads, ascending.
type core struct {
	kind    int // index into Machine.Kinds
	pkg     int // dense index of the package
	piece   int
	slots   int // the slot of one free thread; those of more follow
	threads []cpuset.CPU
}

// held returns how many of the core's threads a set has.
func (c *core) held(set *[cpuset.MaxCPUs / 64]uint64) (n int) {
	for _, t := range c.threads {
		n += int(set[uint(t)/64] >> (uint(t) % 64) & 1)
	}
	return n
}

// span is a half-open range of indexes.
type span struct{ from, to int }

func (s span) len() int { return s.to - s.from }

// NewIndex returns an index of m. The machine must not be changed afterwards. NewIndex panics if m
// is not valid.
func NewIndex(m *topology.Machine) *Index {
	if err := m.Validate(); err != nil {
		panic(fmt.Sprintf("placement.NewIndex: %v", err))
	}
	ix := &Index{machine: m, balanced: m.Balanced(), position: map[topology.NUMAID]int{}}
	designs := map[topology.Kind]int{}
	for _, k := range m.Kinds {
		at, known := designs[k.Design()]
		if !known {
			at = len(designs)
			designs[k.Design()] = at
		}
		ix.designOf = append(ix.designOf, at)
	}
	ix.cpusOfDesign = make([]cpuset.Set, min(len(designs), maxDesigns))
	ix.designSets = newDesignSets(len(ix.cpusOfDesign))
	ix.buildTree()
	ix.buildDistances()
	ix.buildSlots()
	ix.pool.New = func() any { return newSearch(ix) }
	return ix
}

// Machine returns the machine of the index.
func (ix *Index) Machine() *topology.Machine { return ix.machine }

// buildTree sorts the cores into nodes and pieces.
func (ix *Index) buildTree() {
	cores := ix.coresInOrder()
	llcs, packages := map[topology.LLCID]int{}, map[topology.PackageID]int{}
	for i, c := range cores {
		first := ix.mustCPU(c.threads[0])
		if len(ix.nodes) == 0 || ix.nodes[len(ix.nodes)-1].id != first.NUMA {
			ix.position[first.NUMA] = len(ix.nodes)
			ix.nodes = append(ix.nodes, node{id: first.NUMA, pieces: span{len(ix.pieces), len(ix.pieces)}, cores: span{i, i}})
		}
		llc, known := llcs[first.LLC]
		if !known {
			llc = len(llcs)
			llcs[first.LLC] = llc
		}
		at := len(ix.nodes) - 1
		if n := &ix.nodes[at]; n.pieces.len() == 0 || ix.pieces[len(ix.pieces)-1].llc != llc {
			ix.pieces = append(ix.pieces, piece{llc: llc, node: at, cores: span{i, i}})
			n.pieces.to++
		}
		ix.pieces[len(ix.pieces)-1].cores.to++
		ix.nodes[at].cores.to++
		c.piece = len(ix.pieces) - 1
		if _, known := packages[first.Package]; !known {
			packages[first.Package] = len(packages)
		}
		c.pkg = packages[first.Package]
		ix.cores = append(ix.cores, c)
		for _, t := range c.threads {
			ix.nodes[at].cpus.Add(t)
			ix.cpusOfDesign[min(ix.designOf[c.kind], maxDesigns-1)].Add(t)
		}
	}
}

// buildSlots lists the slots of each piece, and the weights of what pieces and nodes leave free.
func (ix *Index) buildSlots() {
	known := map[string]uint16{}
	largest := 0
	for p := range ix.pieces {
		piece := &ix.pieces[p]
		piece.slots.from = len(ix.slots)
		for i := piece.cores.from; i < piece.cores.to; i++ {
			c := &ix.cores[i]
			at := slices.Index(ix.slots[piece.slots.from:], slot{len(c.threads), 1, c.kind})
			if c.slots = piece.slots.from + at; at < 0 {
				c.slots = len(ix.slots)
				for free := range c.threads {
					ix.slots = append(ix.slots, slot{len(c.threads), free + 1, c.kind})
				}
			}
		}
		piece.slots.to = len(ix.slots)
		key := fmt.Sprint(ix.slots[piece.slots.from:])
		if _, ok := known[key]; !ok {
			known[key] = uint16(len(known))
		}
		piece.alike = known[key]
		largest = max(largest, piece.cores.len())
	}
	ix.llcWeights = weights(largest, len(ix.pieces))
	for _, n := range ix.nodes {
		largest = max(largest, n.cores.len())
	}
	ix.nodeWeights = weights(largest, len(ix.nodes))
}

// coresInOrder returns the cores sorted by NUMA node, LLC and core, each identified by its lowest
// CPU (an LLC by its lowest CPU in the node).
func (ix *Index) coresInOrder() []core {
	type pieceKey struct {
		numa topology.NUMAID
		llc  topology.LLCID
	}
	lowestOfNode, lowestOfPiece := map[topology.NUMAID]cpuset.CPU{}, map[pieceKey]cpuset.CPU{}
	for _, c := range slices.Backward(ix.machine.CPUs) {
		lowestOfNode[c.NUMA] = c.ID
		lowestOfPiece[pieceKey{c.NUMA, c.LLC}] = c.ID
	}
	kinds := map[topology.Kind]int{}
	for i, k := range ix.machine.Kinds {
		kinds[k] = i
	}
	type place struct {
		node, piece cpuset.CPU
		core
	}
	places := make([]place, 0, len(ix.machine.CPUs))
	threads := make([]cpuset.CPU, 0, len(ix.machine.CPUs)) // together, for the speed of a search
	for _, g := range ix.machine.Cores() {
		from := len(threads)
		threads = slices.AppendSeq(threads, g.CPUs.All())
		first := ix.mustCPU(threads[from])
		c := core{threads: threads[from:], kind: kinds[first.Kind]}
		places = append(places, place{lowestOfNode[first.NUMA], lowestOfPiece[pieceKey{first.NUMA, first.LLC}], c})
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.piece, b.piece), cmp.Compare(a.threads[0], b.threads[0]))
	})
	cores := make([]core, len(places))
	for i := range places {
		cores[i] = places[i].core
	}
	return cores
}

// limitNodes returns the nodes that a limit covers.
func (ix *Index) limitNodes(l Limit) (nodes mask) {
	if l.NUMANodes == nil {
		return ix.all()
	}
	for _, id := range l.NUMANodes {
		if at, known := ix.position[id]; known {
			nodes |= 1 << at
		}
	}
	return nodes
}

// maxNodes is the largest number of NUMA nodes with CPUs; topology.Machine.Validate enforces it.
const maxNodes = topology.MaxNUMANodes

// all returns all nodes.
func (ix *Index) all() mask { return math.MaxUint64 >> (maxNodes - len(ix.nodes)) }

func (ix *Index) buildDistances() {
	n := len(ix.nodes)
	ix.dist, ix.minDist = make([]int, n*n), math.MaxInt32
	for i, a := range ix.nodes {
		for j, b := range ix.nodes {
			if i != j {
				both := ix.machine.Distance(a.id, b.id) + ix.machine.Distance(b.id, a.id)
				ix.dist[i*n+j], ix.minDist = both, min(ix.minDist, both)
			}
		}
	}
}

// mustCPU returns the description of an online CPU.
func (ix *Index) mustCPU(id cpuset.CPU) topology.CPU {
	c, ok := ix.machine.CPU(id)
	if !ok {
		panic(fmt.Sprintf("placement: CPU %d is not online", id))
	}
	return c
}

// Quality rates a set of online CPUs. It ignores CPUs that are not online.
func (ix *Index) Quality(cpus cpuset.Set) Quality {
	var q Quality
	var designs, llcs, packages cpuset.Set // as sets of small indexes
	var nodes mask
	words := cpus.Words()
	for i, node := range ix.nodes {
		if !node.cpus.Intersects(cpus) {
			continue
		}
		nodes |= 1 << i
		for at := range node.cores.len() {
			c := &ix.cores[node.cores.from+at]
			held := c.held(&words)
			if held == 0 {
				continue
			}
			if held < len(c.threads) {
				q.SplitCores++
			}
			designs.Add(cpuset.CPU(ix.designOf[c.kind]))
			llcs.Add(cpuset.CPU(ix.pieces[c.piece].llc))
			packages.Add(cpuset.CPU(c.pkg))
		}
	}
	q.Kinds, q.NUMANodes, q.LLCs, q.Packages = designs.Len(), nodes.len(), llcs.Len(), packages.Len()
	q.Distance = ix.distanceOf(nodes)
	return q
}
