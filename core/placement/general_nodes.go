package placement

import (
	"cmp"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
)

// solve returns the least cost of the request on the given nodes, a function that picks the CPUs,
// and whether the cost is known to be the minimum. The cost may be impossible.
func (g *general) solve(nodes cpuset.Set) (least cost, pick func() cpuset.Set, exact bool) {
	if len(g.ix.pieces) == g.ix.llcs {
		d, ok := g.divide(nodes)
		if !ok {
			return impossible, nil, d.exact
		}
		return d.cost, func() cpuset.Set { return g.pickNodeShares(d) }, d.exact
	}
	p := g.newProgramme(nodes)
	least = p.best(p.start(g.req.CPUs))
	return least, func() cpuset.Set { return p.pick(g.req.CPUs) }, len(p.memo) <= maxStates
}

// maxStates limits the memory of a programme. Further states count as impossible.
const maxStates = 1 << 19

// programme is the dynamic programme over the pieces of the given nodes. It visits the pieces in
// the order of their LLCs, so that each LLC is counted once. It is needed only if LLCs span nodes.
type programme struct {
	g      *general
	pieces []int
	// memo holds the least cost from each state on.
	memo map[state]cost
}

// state determines the best choice from one piece on.
type state struct {
	piece, left int
	open        bool // a piece of the same LLC has been taken from
	used        string
}

// newProgramme returns the programme for nodes, given as indexes.
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

// start returns the initial state for n CPUs.
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

// choices returns how many different numbers of CPUs can be taken from the next piece.
func (p *programme) choices(s state) int {
	return min(s.left+1, len(p.g.pieces[p.pieces[s.piece]]))
}

// take returns the least cost from s on if n CPUs are taken from the next piece.
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

// after returns the state after taking n CPUs from the next piece, and false if a limit forbids it.
// The use of a limit is reset once no node of the limit follows, which keeps the number of states
// small.
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

// follows reports whether the limit covers a node of a piece at or after `from`.
func (p *programme) follows(l boundLimit, from int) bool {
	return slices.ContainsFunc(p.pieces[from:], func(i int) bool {
		return l.nodes.Contains(cpuset.CPU(p.g.ix.pieces[i].node))
	})
}

// pick returns the cheapest CPUs. Among equal choices it takes the most from the earliest pieces.
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
