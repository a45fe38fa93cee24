package placement

import "slices"

// divider searches for the cheapest division of the CPUs of a request over nodes. It searches only
// if the cheapest division without ties does not meet them: limits that cover some of the nodes but
// not all of them. That division bounds the search.
type divider struct {
	g     *general
	set   mask
	nodes []int // of the set
	chain
	ties []boundLimit // those on several, but not all, of the nodes, with the CPUs that are left
	take []int
	best []int // the cheapest division, by position in nodes; nil if there is none
	cost cost  // of best
	cut  bool  // the budget ended the search
}

// divide returns the cheapest division over the nodes of a set.
func (g *general) divide(set mask) *divider {
	d := &divider{g: g, set: set, cost: impossible}
	var tables [][]cost
	g.req.Budget.Spend(stepsPerTable * set.len())
	for ; set != 0; set &= set - 1 {
		d.nodes = append(d.nodes, set.lowest())
		tables = append(tables, g.node(set.lowest()).least())
	}
	d.parts = tables
	if !d.applyLimits() || !d.room(0, g.req.CPUs) {
		return d
	}
	d.chain = g.newChain(tables)
	if n := g.req.CPUs; n >= len(d.least()) || !d.least()[n].possible() {
		return d
	}
	if d.take = d.divide(g.req.CPUs); d.meets() {
		d.best, d.cost = d.take, d.least()[g.req.CPUs]
	} else {
		d.search(0, g.req.CPUs, cost{})
	}
	return d
}

// meets reports whether the ties permit d.take.
func (d *divider) meets() bool {
	ok := true
	for i, t := range d.take {
		ok = d.use(i, t) && ok
	}
	for i, t := range d.take {
		d.use(i, -t)
	}
	return ok
}

// applyLimits applies limits on a single node by shortening its table, and stores limits on several
// nodes as ties. It returns false if a limit on all the nodes is below the number wanted.
func (d *divider) applyLimits() bool {
	d.g.req.Budget.Spend(2 * len(d.g.limits) * len(d.nodes))
	for _, l := range d.g.limits {
		switch members := l.nodes & d.set; {
		case members == d.set:
			if l.cpus < d.g.req.CPUs {
				return false
			}
		case members.len() == 1:
			at := slices.Index(d.nodes, members.lowest())
			d.parts[at] = d.parts[at][:min(len(d.parts[at]), l.cpus+1)]
		case members != 0:
			d.ties = append(d.ties, l)
		}
	}
	return true
}

// search completes a division whose first i nodes are decided at the cost soFar. It gives the
// earliest nodes as much as possible first, so among equal divisions it finds the one with the
// lowest numbers.
func (d *divider) search(i, missing int, soFar cost) {
	d.cut = d.cut || !d.g.req.Budget.Spend(1+len(d.ties)*(len(d.nodes)-i))
	if d.cut || missing >= len(d.after[i]) || !soFar.plus(d.after[i][missing]).less(d.cost) || !d.room(i, missing) {
		return
	}
	if i == len(d.nodes) {
		d.cost, d.best = soFar, slices.Clone(d.take)
		return
	}
	for t := min(missing, len(d.parts[i])-1); t >= 0; t-- {
		if d.use(i, t) {
			d.take[i] = t
			d.search(i+1, missing-t, soFar.plus(d.parts[i][t]))
		}
		d.use(i, -t)
	}
}

// use counts t CPUs of node i against the ties, and reports whether they are still met.
func (d *divider) use(i, t int) bool {
	ok := true
	for k := range d.ties {
		if d.ties[k].nodes.contains(d.nodes[i]) {
			d.ties[k].cpus -= t
			ok = ok && d.ties[k].cpus >= 0
		}
	}
	return ok
}

// room reports whether each tie on its own lets the nodes from i on give the `missing` CPUs.
func (d *divider) room(i, missing int) bool {
	for _, t := range d.ties {
		inside, outside := 0, 0
		for j := i; j < len(d.nodes); j++ {
			if t.nodes.contains(d.nodes[j]) {
				inside += len(d.parts[j]) - 1
			} else {
				outside += len(d.parts[j]) - 1
			}
		}
		if outside+min(inside, t.cpus) < missing {
			return false
		}
	}
	return true
}
