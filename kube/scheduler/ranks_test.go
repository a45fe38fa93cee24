package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/topology"
)

// A table finds what was just put into it. Later it finds that or nothing, never a wrong rank.
func TestRanksAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, want := newRanks(0, rapid.IntRange(0, 20).Draw(t, "nodes")), map[int64]rank{}
		// Few numbers, so that generations repeat, and multiples, so that hashes collide.
		number := rapid.Map(rapid.Int64Range(-1, 200), func(n int64) int64 { return n << rapid.IntRange(0, 40).Draw(t, "shift") })
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			generation := number.Draw(t, "generation")
			if got, ok := r.find(generation); ok && got != want[generation] {
				t.Fatalf("generation %d: %d, want %d", generation, got, want[generation])
			}
			want[generation] = rank(generation * 3)
			r.put(generation, want[generation])
			if got, ok := r.find(generation); ok != (generation > 0) || ok && got != want[generation] {
				t.Fatalf("generation %d: %d, %v after it was put in as %d", generation, got, ok, want[generation])
			}
		}
	})
}

// While nodes change one after the other, most ranks of the others stay in the table.
func TestRanksKeepNodes(t *testing.T) {
	const nodes = 1000
	r, rng := newRanks(0, nodes), rand.New(rand.NewPCG(1, 2))
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

func TestNilRanks(t *testing.T) {
	var none *ranks
	none.put(1, 2)
	if _, ok := none.find(1); ok {
		t.Error("a nil table contains a rank")
	}
}

func TestRanksConcurrently(t *testing.T) {
	const goroutines, each = 8, 500
	r := newRanks(0, goroutines*each)
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for i := range each {
				generation := int64(1 + i*goroutines + g)
				r.put(generation, rank(generation))
				r.put(int64(1+i), rank(1+i)) // also put by another goroutine
				if got, ok := r.find(generation); !ok || got != rank(generation) {
					t.Errorf("generation %d: %d, %v", generation, got, ok)
				}
			}
		})
	}
	group.Wait()
}

func TestRankTables(t *testing.T) {
	var tables rankTables
	key := func(i int) string { return fmt.Sprint("question ", i) }
	first := tables.of(key(0), 7, 100)
	if tables.of(key(0), 7, 100) != first {
		t.Error("a question has two tables")
	}
	if tables.of(key(1), 7, 100) == first {
		t.Error("two questions share a table")
	}
	second := tables.of(key(0), 8, 100)
	if second == first {
		t.Error("the table is used although a topology has changed")
	}
	for generation := int64(1); !second.full(); generation++ {
		second.put(generation, rank(generation))
	}
	second.put(1<<20, -1)
	if _, ok := second.find(1 << 20); ok {
		t.Error("a full table contains a further rank")
	}
	if tables.of(key(0), 8, 100) == second {
		t.Error("the table is used although it is full")
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
