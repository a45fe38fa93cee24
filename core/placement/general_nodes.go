package placement

import (
	"cmp"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
)

// solve returns the least cost of the CPUs wanted on given nodes, what picks them, and whether that
// is known to be the least. The cost may be impossible.
func (g *general) solve(nodes cpuset.Set) (least cost, pick func() cpuset.Set, exact bool) {
	if len(g.ix.pieces) == g.ix.llcs {
		d, ok := g.divide(nodes)
		if !ok {
			return impossible, nil, d.exact
		}
		return d.cost, func() cpuset.Set { return g.pickNodeShares(d) }, d.exact
	}
	p := g.newProgramme(nodes)
	least = p.best(p.start(g.n))
	return least, func() cpuset.Set { return p.pick(g.n) }, len(p.memo) <= maxStates
}

// maxStates bounds the programme's memory; beyond, states count as impossible.
const maxStates = 1 << 19

// programme is the dynamic programme over the pieces of given nodes, in the order of their LLCs, so
// that an LLC is counted once wherever its pieces lie. Only LLCs that span nodes need it.
type programme struct {
	g      *general
	pieces []int
	// memo holds the least cost of taking what is left from piece i on.
	memo map[state]cost
}

// state is everything that the choice from one piece on depends on.
type state struct {
	piece, left int
	open        bool // a piece of the same LLC has been taken from
	used        string
}

// newProgramme prepares nodes, given as indexes.
func (g *general) newProgramme(nodes cpuset.Set) *programme {
	p := &programme{g: g, memo: map[state]cost{}}
	for i := range g.ix.pieces {
		if nodes.Contains(cpuset.CPU(g.ix.pieces[i].node)) {
			p.pieces = append(p.pieces, i)
		}
	}
	slices.SortStableFunc(p.pieces, func(a, b int) int { return cmp.Compare(g.ix.pieces[a].llc, g.ix.pieces[b].llc) })
	return p
}

// start is the state in which n CPUs are to be taken.
func (p *programme) start(n int) state {
	return state{left: n, used: string(make([]byte, 2*len(p.g.limits)))}
}

// best returns the least cost from a state on.
func (p *programme) best(s state) cost {
	if s.piece == len(p.pieces) {
		if s.left == 0 {
			return cost{}
		}
		return impossible
	}
	if k, known := p.memo[s]; known {
		return k
	}
	least := impossible
	if len(p.memo) > maxStates {
		return least
	}
	for n := range p.choices(s) {
		if k := p.take(s, n); k.compare(least) < 0 {
			least = k
		}
	}
	p.memo[s] = least
	return least
}

// choices is how many different numbers of CPUs can be taken from the next piece.
func (p *programme) choices(s state) int {
	return min(s.left+1, len(p.g.pieces[p.pieces[s.piece]]))
}

// take returns the least cost of taking n from the next piece and going on.
func (p *programme) take(s state, n int) cost {
	k := p.g.pieces[p.pieces[s.piece]][n]
	next, ok := p.after(s, n)
	if !ok || !k.possible() {
		return impossible
	}
	if n > 0 && !s.open {
		k.llcs++
	}
	return k.plus(p.best(next))
}

// after is the state once n CPUs are taken from the next piece, and false when a limit forbids it.
// What a limit has used is forgotten as soon as none of its nodes follow, which keeps the states
// few.
func (p *programme) after(s state, n int) (state, bool) {
	at := p.g.ix.pieces[p.pieces[s.piece]]
	next := state{piece: s.piece + 1, left: s.left - n, used: s.used}
	if next.piece < len(p.pieces) && p.g.ix.pieces[p.pieces[next.piece]].llc == at.llc {
		next.open = s.open || n > 0
	}
	if len(p.g.limits) == 0 {
		return next, true
	}
	used := []byte(s.used)
	for i, l := range p.g.limits {
		sum := int(used[2*i])<<8 | int(used[2*i+1])
		if l.nodes.Contains(cpuset.CPU(at.node)) {
			sum += n
		}
		if sum > l.cpus {
			return state{}, false
		}
		if !p.follows(l, next.piece) {
			sum = 0
		}
		used[2*i], used[2*i+1] = byte(sum>>8), byte(sum)
	}
	next.used = string(used)
	return next, true
}

// follows reports whether a node of the limit has a piece from `from` on.
func (p *programme) follows(l boundLimit, from int) bool {
	return slices.ContainsFunc(p.pieces[from:], func(i int) bool {
		return l.nodes.Contains(cpuset.CPU(p.g.ix.pieces[i].node))
	})
}

// pick returns the CPUs that make the least cost; of equal choices the one that takes the most from
// the earliest pieces.
func (p *programme) pick(n int) cpuset.Set {
	var cpus cpuset.Set
	for s := p.start(n); s.piece < len(p.pieces); {
		least := p.best(s)
		for n := p.choices(s) - 1; n >= 0; n-- {
			if p.take(s, n) == least {
				p.g.pickPiece(p.pieces[s.piece], n, &cpus)
				s, _ = p.after(s, n)
				break
			}
		}
	}
	return cpus
}

// fewestLLCsExactly returns criterion 5 for n CPUs on the nodes of a mask.
func (ix *Index) fewestLLCsExactly(free cpuset.Set, m mask, n int) int {
	g := newGeneral(ix, free, &Request{CPUs: n, Policy: Static})
	least, _, _ := g.solve(maskNodes(m))
	return least.llcs
}

// pickExactly returns the best n CPUs on the nodes of a mask.
func (ix *Index) pickExactly(free cpuset.Set, m mask, n int) cpuset.Set {
	g := newGeneral(ix, free, &Request{CPUs: n, Policy: Static})
	_, pick, _ := g.solve(maskNodes(m))
	return pick()
}

// maskNodes returns the indexes of the nodes of a mask.
func maskNodes(m mask) cpuset.Set {
	var nodes cpuset.Set
	for i := range cpuset.CPU(maxSubsetNodes) {
		if m>>i&1 == 1 {
			nodes.Add(i)
		}
	}
	return nodes
}
