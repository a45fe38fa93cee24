package placement

import (
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
)

// cost is what the general solver minimises on a given set of NUMA nodes, as two numbers that are
// compared one after the other. Every field is a sum over cores and pieces, so a dynamic programme
// finds the minimum.
type cost struct {
	// criteria are the split cores, the LLCs, and the sum of the ranks of the kinds of the CPUs
	// taken, of 21 bits each: criteria 4 to 6.
	criteria uint64
	// fragmentation is the number of whole free cores used, and the sum over the pieces of (free
	// before)² - (free after)², of 32 bits each. Together they approximate criterion 7.
	fragmentation uint64
}

const (
	oneSplit uint64 = 1 << 42
	oneLLC   uint64 = 1 << 21
	oneWhole uint64 = 1 << 32
)

func (a cost) less(b cost) bool {
	return a.criteria < b.criteria || a.criteria == b.criteria && a.fragmentation < b.fragmentation
}

func (a cost) plus(b cost) cost {
	return cost{a.criteria + b.criteria, a.fragmentation + b.fragmentation}
}

func (a cost) whole() int { return int(a.fragmentation >> 32) }

// impossible is larger than any real cost.
var impossible = cost{criteria: 1 << 62}

func (a cost) possible() bool { return a.criteria < impossible.criteria }

// chain divides CPUs among parts at the least cost.
type chain struct {
	parts [][]cost // by part and number of CPUs
	after [][]cost // of all parts from one on
}

func (q *query) newChain(parts [][]cost) chain {
	after := make([][]cost, len(parts)+1)
	after[len(parts)] = []cost{{}}
	for i, part := range slices.Backward(parts) {
		after[i] = q.combine(part, after[i+1])
	}
	return chain{parts, after}
}

// least returns the least cost of each number of CPUs.
func (c *chain) least() []cost { return c.after[0] }

// divide returns how many of n CPUs each part gives. Among equal choices it takes the most from the
// earliest parts.
func (c *chain) divide(n int) []int {
	take := make([]int, len(c.parts))
	for i, part := range c.parts {
		for t := min(n, len(part)-1); t >= 0; t-- {
			if rest := n - t; rest < len(c.after[i+1]) && part[t].plus(c.after[i+1][rest]) == c.after[i][n] {
				take[i], n = t, rest
				break
			}
		}
	}
	return take
}

// stepsPerTable is the work for the memory of one table.
const stepsPerTable = 32

// combine returns the least costs of taking up to req.CPUs CPUs from a and b together.
func (q *query) combine(a, b []cost) []cost {
	sum := make([]cost, min(len(a)+len(b)-1, q.req.CPUs+1))
	q.req.Budget.Spend(stepsPerTable + len(a)*len(b))
	for t := range sum {
		sum[t] = impossible
		for x := max(0, t-len(b)+1); x <= min(t, len(a)-1); x++ {
			if k := a[x].plus(b[t-x]); k.less(sum[t]) {
				sum[t] = k
			}
		}
	}
	return sum
}

// general solves one query by dynamic programming. It supports every machine, with mixed core sizes
// and kinds, and limits that change the best choice if one node does not suffice. It runs over the
// classes of alike cores in each piece, the pieces of each node and the nodes of each set.
type general struct {
	query
	limits []boundLimit
	// nodes are the pieces of the nodes, and pieces the cores of the pieces by class. They are
	// computed when needed.
	nodes, pieces []chain
	classes       [][]coreClass // by piece
}

func newGeneral(q query) *general {
	return &general{query: q, limits: q.boundLimits(), nodes: make([]chain, len(q.ix.nodes)),
		pieces: make([]chain, len(q.ix.pieces)), classes: make([][]coreClass, len(q.ix.pieces))}
}

// node returns the chain of the pieces of a node.
func (g *general) node(n int) *chain {
	if g.nodes[n].parts == nil {
		var parts [][]cost
		for p := g.ix.nodes[n].pieces.from; p < g.ix.nodes[n].pieces.to; p++ {
			parts = append(parts, g.takePiece(p))
		}
		g.nodes[n] = g.newChain(parts)
	}
	return &g.nodes[n]
}

// takePiece returns the costs of taking CPUs from a piece, including its LLC.
func (g *general) takePiece(p int) []cost {
	var parts [][]cost
	g.classes[p] = g.classesOf(p)
	g.req.Budget.Spend(16 * g.ix.pieces[p].cores.len())
	whole := 0
	for _, c := range g.classes[p] {
		parts = append(parts, g.takeClass(c))
		if c.free == c.threads {
			whole += len(c.cores)
		}
	}
	g.pieces[p] = g.newChain(parts)
	costs := slices.Clone(g.pieces[p].least())
	for t := 1; t < len(costs); t++ {
		if costs[t].possible() {
			free := whole - costs[t].whole()
			costs[t] = costs[t].plus(cost{oneLLC, uint64(whole*whole - free*free)})
		}
	}
	return costs
}

// coreClass is cores of a piece that are alike.
type coreClass struct {
	threads, free, kind int
	cores               []*core
}

// classesOf returns the cores of a piece that have free threads, by class.
func (g *general) classesOf(p int) (classes []coreClass) {
	for i := g.ix.pieces[p].cores.from; i < g.ix.pieces[p].cores.to; i++ {
		c := &g.ix.cores[i]
		free := cpuset.Of(c.threads...).Intersection(g.free).Len()
		if free == 0 {
			continue
		}
		at := slices.IndexFunc(classes, func(k coreClass) bool {
			return k.threads == len(c.threads) && k.free == free && k.kind == c.kind
		})
		if at < 0 {
			at, classes = len(classes), append(classes, coreClass{len(c.threads), free, c.kind, nil})
		}
		classes[at].cores = append(classes[at].cores, c)
	}
	return classes
}

// takeClass returns the costs of taking CPUs from the cores of a class, one core after the other.
func (g *general) takeClass(c coreClass) []cost {
	costs := make([]cost, min(len(c.cores)*c.free, g.req.CPUs)+1)
	for t := range costs {
		used := (t + c.free - 1) / c.free
		k := cost{criteria: uint64(t * c.kind)}
		if c.free < c.threads {
			k.criteria += uint64(used) * oneSplit
		} else {
			k.fragmentation = uint64(used) * oneWhole
			k.criteria += uint64(used-t/c.free) * oneSplit
		}
		if g.req.FullCores == FullCoresRequired && k.criteria >= oneSplit {
			k = impossible
		}
		costs[t] = k
	}
	return costs
}

// pick returns the CPUs of a division over nodes.
func (g *general) pick(d *divider) (cpus cpuset.Set) {
	for i, n := range d.nodes {
		for p, ofPiece := range g.node(n).divide(d.best[i]) {
			p += g.ix.nodes[n].pieces.from
			for c, ofClass := range g.pieces[p].divide(ofPiece) {
				for _, core := range g.classes[p][c].cores {
					for _, t := range core.threads {
						if ofClass > 0 && g.free.Contains(t) {
							cpus.Add(t)
							ofClass--
						}
					}
				}
			}
		}
	}
	return cpus
}
