package ledger

import (
	"slices"

	"pinfold.dev/pinfold/core/placement"
)

// flow is a maximum flow of confined requests into NUMA nodes: it serves as much of every request
// as possible from the shared CPUs of its nodes. See rule 2 of the package comment.
//
// Requests are added one after another. Each is routed along shortest augmenting paths (Edmonds and
// Karp), which may move earlier requests to other nodes but never serve them less. Adding a request
// takes at most O(requests² * nodes²) steps, regardless of the amounts.
//
// Invariants: left >= 0; a request sends only to nodes that it reaches; no augmenting path leads
// from an unmet request to a node with capacity left.
type flow struct {
	left  []MilliCPU // by node: the capacity left
	reach [][]int    // by request: the nodes that may serve it
	sent  []MilliCPU // by request and node; see at
	unmet []MilliCPU // by request

	// The tree of the last search: the request that led to each node, and the node that led to each
	// request, or none.
	nodeFrom    []int
	requestFrom []int
	queue       []int // requests

	budget *placement.Budget // of the searches
}

const none = -1

// newFlow returns a flow without requests to nodes with the given capacities. It has space for the
// given number of requests. If it exhausts the budget, it may serve less than possible.
func newFlow(capacity []MilliCPU, requests int, budget *placement.Budget) *flow {
	return &flow{
		budget:      budget,
		left:        capacity,
		reach:       make([][]int, 0, requests),
		sent:        make([]MilliCPU, 0, requests*len(capacity)),
		unmet:       make([]MilliCPU, 0, requests),
		nodeFrom:    make([]int, len(capacity)),
		requestFrom: make([]int, 0, requests),
		queue:       make([]int, 0, requests),
	}
}

// at returns a pointer to the amount that request r sends to node n.
func (f *flow) at(r, n int) *MilliCPU { return &f.sent[r*len(f.left)+n] }

// copyFrom makes f a copy of another flow and reuses the memory of f.
func (f *flow) copyFrom(other *flow) {
	f.budget.Spend(len(other.sent))
	f.left = append(f.left[:0], other.left...)
	f.reach = append(f.reach[:0], other.reach...)
	f.sent = append(f.sent[:0], other.sent...)
	f.unmet = append(f.unmet[:0], other.unmet...)
	f.nodeFrom = append(f.nodeFrom[:0], other.nodeFrom...)
	f.requestFrom = append(f.requestFrom[:0], other.requestFrom...)
}

// add routes one more request to the given nodes. It returns the amount that cannot be served even
// if earlier requests are moved.
func (f *flow) add(nodes []int, amount MilliCPU) (unmet MilliCPU) {
	r := len(f.reach)
	f.reach = append(f.reach, nodes)
	for range f.left {
		f.sent = append(f.sent, 0)
	}
	f.unmet = append(f.unmet, amount)
	f.requestFrom = append(f.requestFrom, none)
	for f.unmet[r] > 0 && !f.budget.Exhausted() {
		end := f.search(r)
		if end == none {
			break
		}
		f.augment(r, end)
	}
	return f.unmet[r]
}

// search walks breadth-first from a request, over nodes, to the requests that could be moved off
// them. It returns the first node with capacity left, or none.
func (f *flow) search(from int) (end int) {
	for n := range f.nodeFrom {
		f.nodeFrom[n] = none
	}
	for r := range f.requestFrom {
		f.requestFrom[r] = none
	}
	f.queue = append(f.queue[:0], from)
	for at := 0; at < len(f.queue); at++ {
		r := f.queue[at]
		for _, n := range f.reach[r] {
			if f.nodeFrom[n] != none {
				continue
			}
			f.nodeFrom[n] = r
			if f.left[n] > 0 {
				return n
			}
			f.budget.Spend(len(f.reach))
			for moved := range f.reach {
				if *f.at(moved, n) > 0 && f.requestFrom[moved] == none && moved != from {
					f.requestFrom[moved] = n
					f.queue = append(f.queue, moved)
				}
			}
		}
	}
	return none
}

// augment sends as much as possible from request r along the path that search found.
func (f *flow) augment(r, end int) {
	amount := min(f.unmet[r], f.left[end])
	for n := end; f.nodeFrom[n] != r; {
		moved := f.nodeFrom[n]
		n = f.requestFrom[moved]
		amount = min(amount, *f.at(moved, n))
	}
	f.unmet[r] -= amount
	f.left[end] -= amount
	n := end
	for f.nodeFrom[n] != r {
		moved := f.nodeFrom[n]
		*f.at(moved, n) += amount
		n = f.requestFrom[moved]
		*f.at(moved, n) -= amount
	}
	*f.at(r, n) += amount
}

// shortfall returns the total amount that cannot be served.
func (f *flow) shortfall() (sum MilliCPU) {
	for _, u := range f.unmet {
		sum += u
	}
	return sum
}

// cuts returns disjoint unions of nodes that are short. The requests confined within each union
// exceed its capacity, and the excess of all unions together equals the shortfall. No smaller set
// of nodes has this property. The result does not depend on the order of the requests. If the budget
// is exhausted, cuts returns no union.
func (f *flow) cuts() (unions [][]int) {
	if f.budget.Exhausted() {
		return nil
	}
	for r, unmet := range f.unmet {
		if unmet == 0 {
			continue
		}
		if f.search(r) != none {
			panic("ledger: the flow of confined requests is not a maximum")
		}
		var reached []int
		for n, from := range f.nodeFrom {
			if from != none {
				reached = append(reached, n)
			}
		}
		unions = mergeInto(unions, reached)
	}
	return unions
}

// mergeInto adds a union to disjoint unions and joins it with those that it intersects.
func mergeInto(unions [][]int, nodes []int) [][]int {
	apart := unions[:0]
	for _, u := range unions {
		if slices.ContainsFunc(u, func(n int) bool { return slices.Contains(nodes, n) }) {
			nodes = slices.Concat(nodes, u)
		} else {
			apart = append(apart, u)
		}
	}
	slices.Sort(nodes)
	return append(apart, slices.Compact(nodes))
}
