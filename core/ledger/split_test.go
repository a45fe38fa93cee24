package ledger

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
)

// drawConfinements draws the account of NUMA nodes of up to 2 CPUs with confinements to some of them, most
// of which overlap.
func drawConfinements(t *rapid.T) *account {
	a, first := &account{site: &site{}}, cpuset.CPU(0)
	for _, n := range rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 1, 2, 2}), 3, 5).Draw(t, "cpus") {
		var cpus cpuset.Set
		for range n {
			cpus.Add(first)
			first++
		}
		a.nodes, a.balanced = append(a.nodes, cpus), a.balanced.Union(cpus)
	}
	for range rapid.IntRange(2, 7).Draw(t, "confinements") {
		c := confinement{demand: rapid.SampledFrom([]MilliCPU{0, 1, 300, 700, 1000, 1500, 2000}).Draw(t, "demand")}
		for _, cpus := range rapid.Permutation(a.nodes).Draw(t, "nodes")[:rapid.SampledFrom([]int{1, 2, 2, 2, 3}).Draw(t, "count")] {
			c.cpus = c.cpus.Union(cpus)
		}
		if c.nodes = a.nodesOf(c.cpus); len(c.nodes) > 0 {
			a.confine(c)
		}
	}
	return a
}

// lack returns by how much what is confined within some nodes exceeds their CPUs.
func lack(a *account, nodes int) MilliCPU {
	var cpus cpuset.Set
	for n := range a.nodes {
		if nodes>>n&1 == 1 {
			cpus = cpus.Union(a.nodes[n])
		}
	}
	return a.demandWithin(cpus) - wholeCPUs(cpus.Len())
}

// TestSplitAgainstAllUnions: what the amounts do not serve is the largest lack of any nodes, and short
// are the fewest nodes with that lack.
func TestSplitAgainstAllUnions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawConfinements(t)
		a.split(placement.NewBudget())
		unserved := checkAmounts(t, a)
		worst, smallest, short := MilliCPU(0), 0, 0
		for nodes := range 1 << len(a.nodes) {
			if l := lack(a, nodes); l > worst {
				worst, smallest = l, nodes
			} else if l == worst {
				smallest &= nodes // the sets with the largest lack are closed under intersection
			}
		}
		for n, is := range a.short {
			if is {
				short |= 1 << n
			}
		}
		if unserved != worst || short != smallest {
			t.Fatalf("%d is not served because of nodes %b, want %d and %b", unserved, short, worst, smallest)
		}
	})
}

// checkAmounts checks that amounts are on nodes of their confinements, and with what is available add
// up to the nodes' CPUs. It returns what is not served.
func checkAmounts(t *rapid.T, a *account) (unserved MilliCPU) {
	on := slices.Clone(a.available)
	for i, c := range a.confinements {
		var sum, available MilliCPU
		for n, amount := range c.amounts {
			if amount < 0 || amount > 0 && !slices.Contains(c.nodes, n) {
				t.Fatalf("confinement %d to nodes %v has %d on node %d", i, c.nodes, amount, n)
			}
			on[n] += amount
			sum += amount
		}
		for _, n := range c.nodes {
			available += a.available[n]
		}
		if sum > max(1, c.demand) || sum < max(1, c.demand) && available > 0 {
			t.Fatalf("confinement %d of %d has amounts %v, and its nodes have %d available", i, c.demand, c.amounts, available)
		}
		unserved += max(0, c.demand-sum)
	}
	for n := range on {
		if a.available[n] < 0 || on[n] != wholeCPUs(a.nodes[n].Len()) {
			t.Fatalf("node %d of %d CPUs has %d available of %d", n, a.nodes[n].Len(), a.available[n], on[n])
		}
	}
	return unserved
}
