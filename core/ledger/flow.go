package ledger

import "slices"

// flow is a maximum flow of confined requests into NUMA nodes: as much of every request as can be
// served by the shared CPUs of its nodes. See rule 2 of the package comment.
//
// Requests are added one after another, and each is routed as far as it goes by shortest augmenting
// paths (Edmonds and Karp), which may move earlier requests to other nodes of theirs but never
// serve them less. Adding a request costs O(requests^2 * nodes^2) steps at worst, whatever the
// amounts.
//
// Invariants: left >= 0; request r sends to node n only where it reaches it; and no augmenting path
// leads from an unmet request to a node with something left.
type flow struct {
	left  []MilliCPU // by node: what it can still serve
	reach [][]int    // by request: the nodes that it may be served by
	sent  []MilliCPU // by request and node; see at
	unmet []MilliCPU // by request

	// The search tree of the last search: which request led to a node, and which node to a request;
	// none where it did not get.
	nodeFrom    []int
	requestFrom []int
	queue       []int // requests
}

const none = -1

// newFlow starts a flow to nodes of these capacities, with room for some requests.
func newFlow(capacity []MilliCPU, requests int) *flow {
	return &flow{
		left:        capacity,
		reach:       make([][]int, 0, requests),
		sent:        make([]MilliCPU, 0, requests*len(capacity)),
		unmet:       make([]MilliCPU, 0, requests),
		nodeFrom:    make([]int, len(capacity)),
		requestFrom: make([]int, 0, requests),
		queue:       make([]int, 0, requests),
	}
}

// at is what a request sends to a node.
func (f *flow) at(r, n int) *MilliCPU { return &f.sent[r*len(f.left)+n] }

// become makes f a copy of another flow, in the memory that it has.
func (f *flow) become(other *flow) {
	f.left = append(f.left[:0], other.left...)
	f.reach = append(f.reach[:0], other.reach...)
	f.sent = append(f.sent[:0], other.sent...)
	f.unmet = append(f.unmet[:0], other.unmet...)
	f.nodeFrom = append(f.nodeFrom[:0], other.nodeFrom...)
	f.requestFrom = append(f.requestFrom[:0], other.requestFrom...)
}

// add routes one more request to some of the nodes and returns what of it cannot be served, however
// the earlier requests are moved.
func (f *flow) add(nodes []int, amount MilliCPU) (unmet MilliCPU) {
	r := len(f.reach)
	f.reach = append(f.reach, nodes)
	for range f.left {
		f.sent = append(f.sent, 0)
	}
	f.unmet = append(f.unmet, amount)
	f.requestFrom = append(f.requestFrom, none)
	for f.unmet[r] > 0 {
		end := f.search(r)
		if end == none {
			break
		}
		f.augment(r, end)
	}
	return f.unmet[r]
}

// search walks breadth first from a request, over nodes to the requests that could be moved off
// them, and returns the first node with something left.
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

// augment sends as much as it can from request r along the path that search found.
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

// shortfall is what cannot be served of all requests together.
func (f *flow) shortfall() (sum MilliCPU) {
	for _, u := range f.unmet {
		sum += u
	}
	return sum
}

// cuts returns the unions of nodes that are short, none of which has a node or a request in common
// with another one. The requests confined within each exceed what its nodes can serve, and
// altogether they do so by the whole shortfall; no smaller nodes than these do. They do not depend
// on the order of the requests.
func (f *flow) cuts() (unions [][]int) {
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

// mergeInto adds a union to disjoint ones, joining it with those it meets.
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
