package ledger

import (
	"slices"

	"pinfold.dev/pinfold/core/placement"
)

// split divides the demand of every confinement into an amount for each of its NUMA nodes, so that
// together these serve as much as possible. The amounts follow from the set of claims and are
// computed again after each change. Demand goes first to the node that has the least available, so
// that others keep whole CPUs.
//
// Invariants: the amounts on a node and what is available add up to its shared CPUs. What the nodes in
// short cannot serve is confined within them, and they have nothing available. So a pod that takes
// what is available takes it from no request, and what cannot be served does not grow.
func (a *account) split(budget *placement.Budget) {
	nodes, shared := len(a.nodes), a.Shared()
	a.available, a.short = make([]MilliCPU, nodes), make([]bool, nodes)
	for n := range a.nodes {
		a.available[n] = wholeCPUs(a.nodes[n].Intersection(shared).Len())
	}
	amounts := make([]MilliCPU, nodes*len(a.confinements))
	for i := range a.confinements {
		a.confinements[i].amounts, amounts = amounts[:nodes], amounts[nodes:]
	}
	for i := range a.confinements {
		for missing := a.confinements[i].demand; missing > 0; {
			visited := slices.Clone(a.short)
			served := a.serve(i, missing, visited, budget)
			if missing -= served; served == 0 {
				a.short = visited
				break
			}
		}
	}
	for i := range a.confinements { // rule 3: an amount keeps its CPU
		if a.confinements[i].demand == 0 {
			a.serve(i, 1, slices.Clone(a.short), budget)
		}
	}
	if budget.Exhausted() { // amounts are missing
		clear(a.available)
	}
}

// serve adds at most the given amount, and at least 1, to those of a confinement, and returns how
// much. If its nodes have nothing available, it moves an amount of another confinement to a node that
// has some, along an augmenting path of the maximum flow. Without such a path it returns 0, and the nodes
// in visited have nothing available, and all amounts on them are of confinements within them.
func (a *account) serve(at int, most MilliCPU, visited []bool, budget *placement.Budget) MilliCPU {
	c, least := &a.confinements[at], -1
	budget.Spend(len(c.nodes))
	for _, n := range c.nodes {
		if a.available[n] > 0 && (least < 0 || a.available[n] < a.available[least]) {
			least = n
		}
	}
	if least >= 0 {
		most = min(most, a.available[least])
		a.available[least] -= most
		c.amounts[least] += most
		return most
	}
	for _, n := range c.nodes {
		if visited[n] || !budget.Spend(len(a.confinements)) {
			continue
		}
		visited[n] = true
		for i := range a.confinements {
			there := &a.confinements[i].amounts[n]
			if *there == 0 {
				continue
			}
			if moved := a.serve(i, min(most, *there), visited, budget); moved > 0 {
				*there -= moved
				c.amounts[n] += moved
				return moved
			}
		}
	}
	return 0
}
