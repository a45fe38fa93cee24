package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"pinfold.dev/pinfold/core/topology"
)

// A table finds what was put last into an entry, and never the rank of another generation. Meant
// for the race detector, too.
func TestRanks(t *testing.T) {
	const goroutines, each = 4, 500
	r := new(rankTables).of("", 0, 100)
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for i := range each {
				generation := int64(1 + i*goroutines + g)
				r.put(generation, rank(3*generation))
				for old := max(1, generation-int64(2*len(r))); old <= generation; old += 7 {
					if got, ok := r.find(old); ok && got != rank(3*old) {
						t.Errorf("generation %d: %d", old, got)
					}
				}
			}
		})
	}
	group.Wait()
	const last = goroutines * each
	for generation := int64(last - len(r) + 1); generation <= last; generation++ {
		r.put(generation, rank(generation))
	}
	for generation := int64(1); generation <= last+1; generation++ {
		want := generation > int64(last-len(r)) && generation <= last
		if got, ok := r.find(generation); ok != want || ok && got != rank(generation) {
			t.Errorf("generation %d: %d, %v", generation, got, ok)
		}
	}
}

// While nodes change one after the other, most ranks of the others stay in the table.
func TestRanksKeepNodes(t *testing.T) {
	const nodes = 1000
	r, rng := new(rankTables).of("", 0, nodes), rand.New(rand.NewPCG(1, 2))
	var now [nodes]int64
	var generation, misses int64
	for change := range 10 * nodes {
		generation += 1 + rng.Int64N(3) // some generations are used up by other nodes
		now[rng.IntN(nodes)] = generation
		if change%100 != 0 {
			continue
		}
		for _, g := range now {
			if _, ok := r.find(g); g > 0 && !ok {
				misses++
				r.put(g, rank(g%100))
			}
		}
	}
	// Each change causes a miss. A tenth more may be replaced too early.
	if misses > 11*nodes {
		t.Errorf("%d misses after %d changes", misses, 10*nodes)
	}
}

// A table belongs to one question and one state of the topologies. The number of tables is bounded.
func TestRankTables(t *testing.T) {
	var tables rankTables
	key := func(i int) string { return fmt.Sprint("question ", i) }
	cached := func(question int, changes uint64) bool {
		_, ok := tables.of(key(question), changes, 100).find(1)
		return ok
	}
	tables.of(key(0), 7, 100).put(1, 1)
	if !cached(0, 7) {
		t.Error("a question has two tables")
	}
	if cached(1, 7) {
		t.Error("two questions share a table")
	}
	if cached(0, 8) || cached(1, 8) {
		t.Error("a table is used although a topology has changed")
	}
	if _, ok := tables.of("no nodes", 8, 0).find(1); ok {
		t.Error("an empty table contains a rank")
	}
	for i := range 3 * maxRanks {
		tables.of(key(i), 8, 100)
		if n := len(tables.byQuestion); n > maxRanks {
			t.Fatalf("%d tables, want at most %d", n, maxRanks)
		}
	}
}

// Ranks are not used after the node has changed: after a pod was assumed, and after the topology
// changed.
func TestRanksFollowNodes(t *testing.T) {
	p, node := barePlugin(t), nodeInfoOf("n", 8)
	reportMachine(t, p, "n", topology.Shape{CoresPerLLC: 8}.MustBuild(), 1)
	fits := func(cpus int) bool {
		pod := askingPod(fmt.Sprint("asks-", cpus), cpus)
		state := framework.NewCycleState()
		if _, status := p.PreFilter(context.Background(), state, pod, []fwk.NodeInfo{node}); !status.IsSuccess() {
			return false
		}
		fits := p.Filter(context.Background(), state, pod, node).IsSuccess()
		score, status := p.Score(context.Background(), state, pod, node)
		if fits != status.IsSuccess() {
			t.Errorf("%d CPUs: fits %v, score %v", cpus, fits, status)
		}
		if again, _ := p.Score(context.Background(), state, pod, node); again != score {
			t.Errorf("%d CPUs: scores %d and %d", cpus, score, again)
		}
		return fits
	}
	expect := func(when string, want int) {
		t.Helper()
		for cpus := 1; cpus <= 7; cpus++ {
			for range 2 { // the second time from the table
				if got := fits(cpus); got != (cpus <= want) {
					t.Errorf("%s: %d CPUs fit: %v", when, cpus, got)
				}
			}
		}
	}
	expect("empty", 7)
	pod := askingPod("pod", 3)
	assume(t, p, startCycle(t, p, pod, node), pod, node)
	expect("with a pod of 3", 4)
	reportMachine(t, p, "n", topology.Shape{CoresPerLLC: 6}.MustBuild(), 2)
	expect("on a machine of 6", 2)
}
