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
// belongs to one request is in a [query] and in the solvers' own values, [search] and [general].
type Index struct {
	machine  *topology.Machine
	balanced cpuset.Set // the CPUs that can be chosen
	// The machine in tree order. Each level is sorted by the lowest CPU within its parent.
	nodes        []node
	pieces       []piece
	cores        []core
	llcs         int                     // number of LLCs; piece.llc is below it
	designOf     []int                   // by kind; designs are numbered from the fastest on
	cpusOfDesign []cpuset.Set            // by design; the last of maxDesigns has all others
	designSets   []uint32                // see newDesignSets
	position     map[topology.NUMAID]int // in nodes
	dist         []int                   // between nodes i and j at i*len(nodes)+j, both directions added
	minDist      int                     // the least of them

	uniform *uniform  // nil unless the fast solver applies
	pool    sync.Pool // of *search, for the fast solver
}

// node is a NUMA node with CPUs, or all CPUs without a NUMA node.
type node struct {
	id     topology.NUMAID
	cpus   cpuset.Set
	pieces span
}

// piece is the part of one LLC that lies in one NUMA node.
type piece struct {
	llc, node int
	cores     span
}

// core is a physical core with its online threads, ascending.
type core struct {
	kind    int // index into Machine.Kinds
	pkg     int // dense index of the package
	piece   int
	threads []cpuset.CPU
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
	ix.uniform = newUniform(ix)
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
			ix.nodes = append(ix.nodes, node{id: first.NUMA, pieces: span{len(ix.pieces), len(ix.pieces)}})
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
	ix.llcs = len(llcs)
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
	var cores []core
	place := map[cpuset.CPU][2]cpuset.CPU{} // by a core's lowest CPU: those of its node and its piece
	for _, g := range ix.machine.Cores() {
		c := core{threads: slices.Collect(g.CPUs.All())}
		first := ix.mustCPU(c.threads[0])
		c.kind = kinds[first.Kind]
		cores = append(cores, c)
		place[first.ID] = [2]cpuset.CPU{lowestOfNode[first.NUMA], lowestOfPiece[pieceKey{first.NUMA, first.LLC}]}
	}
	slices.SortFunc(cores, func(a, b core) int {
		x, y := place[a.threads[0]], place[b.threads[0]]
		return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1]), cmp.Compare(a.threads[0], b.threads[0]))
	})
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
	for _, c := range ix.cores {
		held := 0
		for _, t := range c.threads {
			if cpus.Contains(t) {
				held++
			}
		}
		if held == 0 {
			continue
		}
		if held < len(c.threads) {
			q.SplitCores++
		}
		designs.Add(cpuset.CPU(ix.designOf[c.kind]))
		nodes |= 1 << ix.pieces[c.piece].node
		llcs.Add(cpuset.CPU(ix.pieces[c.piece].llc))
		packages.Add(cpuset.CPU(c.pkg))
	}
	q.Kinds, q.NUMANodes, q.LLCs, q.Packages = designs.Len(), nodes.len(), llcs.Len(), packages.Len()
	q.Distance = ix.distanceOf(nodes)
	return q
}
