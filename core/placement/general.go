package placement

import (
	"cmp"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// cost is what the general solver minimises on a given set of NUMA nodes. Every field is a sum over
// cores and pieces, so a dynamic programme finds the minimum.
type cost struct {
	split, llcs int // criteria 4 and 5
	// slow is the sum of the ranks of the kinds of the CPUs taken: criterion 6.
	slow int
	// whole is the number of whole free cores used. spread is the sum over the pieces of (free
	// before)² - (free after)². Together they approximate criterion 7.
	whole, spread int
}

func (a cost) compare(b cost) int {
	return cmp.Or(cmp.Compare(a.split, b.split), cmp.Compare(a.llcs, b.llcs), cmp.Compare(a.slow, b.slow),
		cmp.Compare(a.whole, b.whole), cmp.Compare(a.spread, b.spread))
}

func (a cost) plus(b cost) cost {
	return cost{a.split + b.split, a.llcs + b.llcs, a.slow + b.slow, a.whole + b.whole, a.spread + b.spread}
}

// impossible is larger than any real cost.
var impossible = cost{split: 1 << 30}

func (a cost) possible() bool { return a.split < impossible.split }

// general solves one request by dynamic programming. It supports every machine: mixed core sizes
// and kinds, LLCs that span NUMA nodes, and limits.
type general struct {
	ix     *Index
	free   cpuset.Set
	n      int  // CPUs wanted
	whole  bool // split cores are forbidden
	limits []boundLimit
	// pieces[p][t] is the least cost of taking t CPUs from piece p, without counting its LLC.
	pieces [][]cost
	tables []*nodeTable // by node, computed when needed
}

// boundLimit is a Limit that is below both the request and the CPUs free there.
type boundLimit struct {
	nodes cpuset.Set // of node indexes
	cpus  int
}

// newGeneral returns a solver for req on the free CPUs.
func newGeneral(ix *Index, free cpuset.Set, req *Request) *general {
	g := &general{ix: ix, free: free, n: req.CPUs, tables: make([]*nodeTable, len(ix.nodes)), whole: req.Policy == Static && req.FullCores == FullCoresRequired}
	if req.Policy == Static {
		g.limits = ix.boundLimits(free, req)
	}
	g.pieces = make([][]cost, len(ix.pieces))
	for p := range ix.pieces {
		g.pieces[p] = g.pieceCosts(p)
	}
	return g
}

// boundLimits returns the limits that can affect the request.
func (ix *Index) boundLimits(free cpuset.Set, req *Request) []boundLimit {
	var bound []boundLimit
	for _, l := range req.Limits {
		if b, cpus := ix.limitNodes(l); l.CPUs < min(req.CPUs, cpus.Intersection(free).Len()) {
			bound = append(bound, boundLimit{nodes: b, cpus: l.CPUs})
		}
	}
	return bound
}

// limitNodes returns the indexes of the nodes of a limit, and their CPUs.
func (ix *Index) limitNodes(l Limit) (nodes, cpus cpuset.Set) {
	for i, n := range ix.nodes {
		if l.NUMANodes == nil || slices.Contains(l.NUMANodes, n.id) {
			nodes.Add(cpuset.CPU(i))
			cpus = cpus.Union(n.cpus)
		}
	}
	return nodes, cpus
}

// freeThreads returns the number of free threads of a core.
func (g *general) freeThreads(c *core) int {
	n := 0
	for _, t := range c.threads {
		if g.free.Contains(t) {
			n++
		}
	}
	return n
}

// coreCost returns the cost of taking n of the free threads of a core.
func (g *general) coreCost(c *core, n int) cost {
	if n == 0 {
		return cost{}
	}
	k := cost{slow: n * c.kind}
	if n < len(c.threads) {
		if g.whole {
			return impossible
		}
		k.split = 1
	}
	if g.freeThreads(c) == len(c.threads) {
		k.whole = 1
	}
	return k
}

// coreTable returns a table whose entry [i][t] is the least cost of taking t CPUs from core i of a
// piece and the cores after it.
func (g *general) coreTable(p int) [][]cost {
	span := g.ix.pieces[p].cores
	table := make([][]cost, span.len()+1)
	table[span.len()] = []cost{{}}
	for i := span.len() - 1; i >= 0; i-- {
		c := &g.ix.cores[span.from+i]
		free, after := g.freeThreads(c), table[i+1]
		row := make([]cost, len(after)+free)
		for t := range row {
			row[t] = impossible
			for n := max(0, t-len(after)+1); n <= min(free, t); n++ {
				if k := g.coreCost(c, n).plus(after[t-n]); k.compare(row[t]) < 0 {
					row[t] = k
				}
			}
		}
		table[i] = row
	}
	return table
}

func (g *general) pieceCosts(p int) []cost {
	costs := g.coreTable(p)[0]
	span, whole := g.ix.pieces[p].cores, 0
	for i := span.from; i < span.to; i++ {
		if c := &g.ix.cores[i]; g.freeThreads(c) == len(c.threads) {
			whole++
		}
	}
	for t := range costs {
		if left := whole - costs[t].whole; costs[t].possible() {
			costs[t].spread = whole*whole - left*left
		}
	}
	return costs
}

// pickPiece adds to cpus the cheapest t CPUs of a piece, the lowest cores first.
func (g *general) pickPiece(p, t int, cpus *cpuset.Set) {
	table, span := g.coreTable(p), g.ix.pieces[p].cores
	for i := range span.len() {
		c := &g.ix.cores[span.from+i]
		for n := min(g.freeThreads(c), t); n >= 0; n-- {
			rest := t - n
			if rest < len(table[i+1]) && g.coreCost(c, n).plus(table[i+1][rest]) == table[i][t] {
				g.pickCore(c, n, cpus)
				t = rest
				break
			}
		}
	}
}

func (g *general) pickCore(c *core, n int, cpus *cpuset.Set) {
	for _, t := range c.threads {
		if n > 0 && g.free.Contains(t) {
			cpus.Add(t)
			n--
		}
	}
}

// admits reports whether req.Admit permits the nodes, given as indexes.
func (ix *Index) admits(req *Request, nodes cpuset.Set) bool {
	if req.Admit == nil {
		return true
	}
	ids := make([]topology.NUMAID, 0, nodes.Len())
	for i := range nodes.All() {
		ids = append(ids, ix.nodes[i].id)
	}
	slices.Sort(ids)
	return req.Admit(ids)
}
