package placement

import (
	"cmp"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// cost is what the general solver minimises over the choices inside given nodes. Every part adds up
// over cores and pieces, so a dynamic programme finds the minimum.
type cost struct {
	split, llcs int // criteria 4 and 5
	// slow adds up the ranks of the kinds of the CPUs taken: where kinds have to be mixed, as many
	// CPUs as possible are of the faster one.
	slow int
	// whole counts the whole free cores that are used, and spread says how much the large rooms
	// lose: the sum of (free before)² - (free after)² over the pieces. Together they stand for
	// criterion 6.
	whole, spread int
}

func (a cost) compare(b cost) int {
	return cmp.Or(cmp.Compare(a.split, b.split), cmp.Compare(a.llcs, b.llcs), cmp.Compare(a.slow, b.slow),
		cmp.Compare(a.whole, b.whole), cmp.Compare(a.spread, b.spread))
}

func (a cost) plus(b cost) cost {
	return cost{a.split + b.split, a.llcs + b.llcs, a.slow + b.slow, a.whole + b.whole, a.spread + b.spread}
}

// impossible is above every cost that occurs.
var impossible = cost{split: 1 << 30}

func (a cost) possible() bool { return a.split < impossible.split }

// general answers questions about one free set by dynamic programming. It serves every machine:
// mixed core sizes and kinds, LLCs across NUMA nodes, limits.
type general struct {
	ix     *Index
	free   cpuset.Set
	n      int  // CPUs wanted
	whole  bool // split cores are forbidden
	limits []boundLimit
	// pieces[p][t] is the least cost of taking t CPUs from piece p, the LLC itself not counted.
	pieces [][]cost
	tables []*nodeTable // by node, made when needed
}

// boundLimit is a Limit that can bind, over indexes of nodes.
type boundLimit struct {
	nodes cpuset.Set // of node indexes
	cpus  int
}

// newGeneral prepares the free CPUs of the allowed kinds.
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

// withoutLimits returns the same question with the limits lifted.
func (g *general) withoutLimits() *general {
	lifted := *g
	lifted.limits = nil
	return &lifted
}

// boundLimits returns the limits of the request that can bind.
func (ix *Index) boundLimits(free cpuset.Set, req *Request) []boundLimit {
	var bound []boundLimit
	for _, l := range req.Limits {
		if b, cpus := ix.limitNodes(l); l.CPUs < min(req.CPUs, cpus.Intersection(free).Len()) {
			bound = append(bound, boundLimit{nodes: b, cpus: l.CPUs})
		}
	}
	return bound
}

// limitNodes returns the nodes of a limit as indexes, and their CPUs.
func (ix *Index) limitNodes(l Limit) (nodes, cpus cpuset.Set) {
	for i, n := range ix.nodes {
		in := l.NUMANodes == nil
		for _, id := range l.NUMANodes {
			in = in || id == n.id
		}
		if in {
			nodes.Add(cpuset.CPU(i))
			cpus = cpus.Union(n.cpus)
		}
	}
	return nodes, cpus
}

// freeThreads counts the free threads of a core.
func (g *general) freeThreads(c *core) int {
	n := 0
	for _, t := range c.threads {
		if g.free.Contains(t) {
			n++
		}
	}
	return n
}

// coreCost is the cost of taking n of a core's free threads.
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

// coreTable returns, for each core i of a piece and each t, the least cost of taking t CPUs from
// that core and those after it.
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

// pickPiece adds the CPUs that make the least cost of taking t from a piece, the lowest cores
// first.
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

// nodeIDs returns the ids of nodes given as indexes, ascending.
func (ix *Index) nodeIDs(nodes cpuset.Set, buffer []topology.NUMAID) []topology.NUMAID {
	ids := buffer[:0]
	for i := range nodes.All() {
		id, at := ix.nodes[i].id, len(ids)
		ids = append(ids, id)
		for ; at > 0 && ids[at-1] > id; at-- {
			ids[at] = ids[at-1]
		}
		ids[at] = id
	}
	return ids
}
