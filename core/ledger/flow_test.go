package ledger

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/placement"
)

type flowRequest struct {
	nodes  []int
	amount MilliCPU
}

func runFlow(capacity []MilliCPU, requests []flowRequest) *flow {
	f := newFlow(slices.Clone(capacity), 0, placement.NewBudget())
	for _, r := range requests {
		f.add(r.nodes, r.amount)
	}
	return f
}

// lack returns by how much the requests confined within a set of nodes exceed the capacity of the
// nodes.
func lack(capacity []MilliCPU, requests []flowRequest, nodes int) (sum MilliCPU) {
	for n, c := range capacity {
		if nodes>>n&1 == 1 {
			sum -= c
		}
	}
	for _, r := range requests {
		within := true
		for _, n := range r.nodes {
			within = within && nodes>>n&1 == 1
		}
		if within {
			sum += r.amount
		}
	}
	return sum
}

// TestFlowAgainstAllUnions: the shortfall is the largest lack of any set of nodes, and the cuts are
// the disjoint parts of the smallest set with that lack.
func TestFlowAgainstAllUnions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.SampledFrom([]MilliCPU{0, 1, 2, 3, 5, 8})
		capacity := rapid.SliceOfN(amount, 1, 6).Draw(t, "capacity")
		var requests []flowRequest
		for range rapid.IntRange(0, 7).Draw(t, "requests") {
			r := flowRequest{amount: amount.Draw(t, "amount")}
			reaches := rapid.SliceOfN(rapid.Bool(), len(capacity), len(capacity)).Draw(t, "reaches")
			for n, yes := range reaches {
				if yes {
					r.nodes = append(r.nodes, n)
				}
			}
			if r.nodes != nil {
				requests = append(requests, r)
			}
		}
		f := runFlow(capacity, requests)
		checkConservation(t, f, capacity, requests)

		worst, smallest := MilliCPU(0), 0
		for nodes := range 1 << len(capacity) {
			if l := lack(capacity, requests, nodes); l > worst {
				worst, smallest = l, nodes
			} else if l == worst {
				smallest &= nodes // the sets with the largest lack are closed under intersection
			}
		}
		cuts := f.cuts()
		together, sum := 0, MilliCPU(0)
		for _, nodes := range cuts {
			piece := 0
			for _, n := range nodes {
				piece |= 1 << n
			}
			l := lack(capacity, requests, piece)
			if piece&together != 0 || l <= 0 {
				t.Fatalf("cuts %v: %v intersects another one, or has no lack (%d)", cuts, nodes, l)
			}
			together, sum = together|piece, sum+l
		}
		if f.shortfall() != worst || sum != worst || together != smallest {
			t.Fatalf("shortfall %d, cuts %v that lack %d; want %d and the nodes %b", f.shortfall(), cuts, sum, worst, smallest)
		}
		order := rapid.Permutation(requests).Draw(t, "order")
		if again := runFlow(capacity, order).cuts(); !cmp.Equal(sorted(again), sorted(cuts)) {
			t.Fatalf("cuts %v, in another order of requests %v", cuts, again)
		}
	})
}

func sorted(unions [][]int) [][]int {
	slices.SortFunc(unions, slices.Compare[[]int])
	return unions
}

// checkConservation checks that requests send only to nodes that they reach, and that the amounts
// add up.
func checkConservation(t *rapid.T, f *flow, capacity []MilliCPU, requests []flowRequest) {
	used := make([]MilliCPU, len(capacity))
	for i, r := range requests {
		var sent MilliCPU
		for n := range capacity {
			s := *f.at(i, n)
			if s < 0 || s > 0 && !slices.Contains(r.nodes, n) {
				t.Fatalf("request %d sends %d to node %d, which it does not reach", i, s, n)
			}
			sent += s
			used[n] += s
		}
		if sent+f.unmet[i] != r.amount {
			t.Fatalf("request %d of %d sends %d and has %d unmet", i, r.amount, sent, f.unmet[i])
		}
	}
	for n := range capacity {
		if used[n]+f.left[n] != capacity[n] || f.left[n] < 0 {
			t.Fatalf("node %d of %d serves %d and has %d left", n, capacity[n], used[n], f.left[n])
		}
	}
}
