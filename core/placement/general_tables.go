package placement

import (
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
)

// table returns the table of a node, which is computed once.
func (g *general) table(n int) [][]cost {
	if g.tables[n] == nil {
		pieces := g.ix.nodes[n].pieces
		t := make([][]cost, pieces.len()+1)
		t[pieces.len()] = []cost{{}}
		for i := pieces.len() - 1; i >= 0; i-- {
			t[i] = combine(g.takePiece(pieces.from+i), t[i+1], g.req.CPUs)
		}
		g.tables[n] = t
	}
	return g.tables[n]
}

// takePiece returns the costs of taking CPUs from a piece, including its LLC.
func (g *general) takePiece(p int) []cost {
	costs := slices.Clone(g.pieces[p])
	for t := range costs {
		if t > 0 {
			costs[t].llcs++
		}
	}
	return costs
}

// combine returns the least costs of taking 0 to most CPUs from a and b together.
func combine(a, b []cost, most int) []cost {
	sum := make([]cost, min(len(a)+len(b)-1, most+1))
	for t := range sum {
		sum[t] = impossible
		for x := max(0, t-len(b)+1); x <= min(t, len(a)-1); x++ {
			if k := a[x].plus(b[t-x]); k.compare(sum[t]) < 0 {
				sum[t] = k
			}
		}
	}
	return sum
}

// nodeShares is a division of the CPUs of a request over nodes.
type nodeShares struct {
	nodes []int
	take  []int
	cost  cost
	exact bool // false if the search ended early
}

// maxVisits limits the search for a division under ties.
const maxVisits = 100_000

// divider searches for the cheapest division of n CPUs over nodes. Without ties, the bound is
// reached by the first division that is tried.
type divider struct {
	g      *general
	nodes  []int
	tables [][]cost
	bound  [][]cost // bound[i][t]: least cost of t CPUs from node i on, without ties
	ties   []tie
	visits int
	take   []int
	best   nodeShares
}

// tie is a limit on several, but not all, of the nodes.
type tie struct {
	member []bool // by position in divider.nodes
	left   int
}

// divide returns the cheapest division, and false if there is none.
func (g *general) divide(nodes cpuset.Set) (nodeShares, bool) {
	d := divider{g: g}
	for n := range nodes.All() {
		d.nodes = append(d.nodes, int(n))
		d.tables = append(d.tables, g.table(int(n))[0])
	}
	if !d.applyLimits() {
		return nodeShares{exact: true}, false
	}
	d.bound = make([][]cost, len(d.nodes)+1)
	d.bound[len(d.nodes)] = []cost{{}}
	for i := len(d.nodes) - 1; i >= 0; i-- {
		d.bound[i] = combine(d.tables[i], d.bound[i+1], g.req.CPUs)
	}
	d.take = make([]int, len(d.nodes))
	d.best.cost = impossible
	d.search(0, g.req.CPUs, cost{})
	d.best.nodes, d.best.exact = d.nodes, d.visits <= maxVisits
	return d.best, d.best.cost.possible()
}

// applyLimits applies limits on a single node by shortening its table, and stores limits on several
// nodes as ties. It returns false if a limit on all the nodes is below the number wanted.
func (d *divider) applyLimits() bool {
	for _, l := range d.g.limits {
		t := tie{member: make([]bool, len(d.nodes)), left: l.cpus}
		members, last := 0, 0
		for i, n := range d.nodes {
			if l.nodes.Contains(cpuset.CPU(n)) {
				t.member[i] = true
				members, last = members+1, i
			}
		}
		switch {
		case members == len(d.nodes):
			if l.cpus < d.g.req.CPUs {
				return false
			}
		case members == 1:
			d.tables[last] = d.tables[last][:min(len(d.tables[last]), l.cpus+1)]
		case members > 1:
			d.ties = append(d.ties, t)
		}
	}
	return true
}

// search completes a division whose first i nodes are decided at the cost soFar. It gives the
// earliest nodes as much as possible first, so among equal divisions it finds the one with the
// lowest numbers.
func (d *divider) search(i, left int, soFar cost) {
	if d.visits++; d.visits > maxVisits || left >= len(d.bound[i]) ||
		soFar.plus(d.bound[i][left]).compare(d.best.cost) >= 0 || !d.room(i, left) {
		return
	}
	if i == len(d.nodes) {
		d.best.cost, d.best.take = soFar, slices.Clone(d.take)
		return
	}
	for t := min(left, len(d.tables[i])-1); t >= 0; t-- {
		if d.use(i, t) {
			d.take[i] = t
			d.search(i+1, left-t, soFar.plus(d.tables[i][t]))
		}
		d.use(i, -t)
	}
}

// use counts t CPUs of node i against the ties, and reports whether they are still met.
func (d *divider) use(i, t int) bool {
	ok := true
	for k := range d.ties {
		if d.ties[k].member[i] {
			d.ties[k].left -= t
			ok = ok && d.ties[k].left >= 0
		}
	}
	return ok
}

// room reports whether each tie on its own lets the nodes from i on give `left` CPUs.
func (d *divider) room(i, left int) bool {
	for _, t := range d.ties {
		inside, outside := 0, 0
		for j := i; j < len(d.nodes); j++ {
			if t.member[j] {
				inside += len(d.tables[j]) - 1
			} else {
				outside += len(d.tables[j]) - 1
			}
		}
		if outside+min(inside, t.left) < left {
			return false
		}
	}
	return true
}

// pickNodeShares returns the CPUs of a division. Among equal choices it takes the most from the
// earliest pieces.
func (g *general) pickNodeShares(d nodeShares) cpuset.Set {
	var cpus cpuset.Set
	for i, n := range d.nodes {
		after, left := g.table(n), d.take[i]
		first := g.ix.nodes[n].pieces.from
		for p := range len(after) - 1 {
			costs := g.takePiece(first + p)
			for t := min(left, len(costs)-1); t >= 0; t-- {
				if left-t < len(after[p+1]) && costs[t].plus(after[p+1][left-t]) == after[p][left] {
					g.pickPiece(first+p, t, &cpus)
					left -= t
					break
				}
			}
		}
	}
	return cpus
}
