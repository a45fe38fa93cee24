package placement

import (
	"cmp"

	"pinfold.dev/pinfold/core/cpuset"
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

// general solves one query by dynamic programming. It supports every machine: mixed core sizes
// and kinds, LLCs that span NUMA nodes, and limits.
type general struct {
	query
	whole  bool // split cores are forbidden
	limits []boundLimit
	// pieces[p][t] is the least cost of taking t CPUs from piece p, without counting its LLC.
	pieces [][]cost
	// tables[n][i][t] is the least cost of taking t CPUs from piece i of node n and the pieces
	// after it, if no LLC spans nodes. They are computed when needed.
	tables [][][]cost
}

func newGeneral(q query) *general {
	g := &general{query: q, tables: make([][][]cost, len(q.ix.nodes)), limits: q.boundLimits(),
		whole: q.req.FullCores == FullCoresRequired}
	g.pieces = make([][]cost, len(q.ix.pieces))
	for p := range q.ix.pieces {
		g.pieces[p] = g.pieceCosts(p)
	}
	return g
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
