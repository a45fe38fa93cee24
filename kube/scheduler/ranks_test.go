package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"unique"

	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/topology"
)

// TestRanksAgainstMap: a table finds what has just been put into it, and later that or
// nothing, never anything else.
func TestRanksAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, want := newRanks(0, rapid.IntRange(0, 20).Draw(t, "nodes")), map[int64]rank{}
		// Of few numbers, so that many meet; multiples, so that hashes do.
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

// TestRanksKeepNodes: while nodes change one after the other, most of what is known of
// the others stays known.
func TestRanksKeepNodes(t *testing.T) {
	const nodes = 1000
	r, rng := newRanks(0, nodes), rand.New(rand.NewPCG(1, 2))
	var now [nodes]int64
	var generation, misses int64
	for change := range 10 * nodes {
		generation += 1 + rng.Int64N(3) // generations of pods that other questions are about
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
	// Each change must be asked about; a tenth more may be asked about once again.
	if misses > 11*nodes {
		t.Errorf("asked %d times about %d changes", misses, 10*nodes)
	}
}

func TestNoRanks(t *testing.T) {
	var none *ranks
	none.put(1, 2)
	if _, ok := none.find(1); ok {
		t.Error("something is found where there is nothing")
	}
}

func TestRanksAreSharedByGoroutines(t *testing.T) {
	const goroutines, each = 8, 500
	r := newRanks(0, goroutines*each)
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for i := range each {
				generation := int64(1 + i*goroutines + g)
				r.put(generation, rank(generation))
				r.put(int64(1+i), rank(1+i)) // somebody else's too
				if got, ok := r.find(generation); !ok || got != rank(generation) {
					t.Errorf("generation %d: %d, %v", generation, got, ok)
				}
			}
		})
	}
	group.Wait()
}

func TestTablesOfRanks(t *testing.T) {
	var tables rankTables
	key := func(i int) questionKey { return unique.Make(fmt.Sprint("question ", i)) }
	first := tables.of(key(0), 7, 100)
	if tables.of(key(0), 7, 100) != first {
		t.Error("a question has another table")
	}
	if tables.of(key(1), 7, 100) == first {
		t.Error("two questions have one table")
	}
	second := tables.of(key(0), 8, 100)
	if second == first {
		t.Error("the table is kept although a topology has changed")
	}
	for generation := int64(1); !second.full(); generation++ {
		second.put(generation, rank(generation))
	}
	second.put(1<<20, -1)
	if _, ok := second.find(1 << 20); ok {
		t.Error("a table knows more ranks than it can tell apart")
	}
	if tables.of(key(0), 8, 100) == second {
		t.Error("the table is kept although it is full")
	}
	for i := range 3 * maxRanks {
		tables.of(key(i), 8, 100)
		if n := len(tables.byQuestion); n > maxRanks {
			t.Fatalf("%d tables, want at most %d", n, maxRanks)
		}
	}
}

// What a node said is not what it says after it has changed: when its topology is
// another one, when a pod has come, and when its pods are counted otherwise.
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
			for range 2 { // asked for the first time, and known
				if got := fits(cpus); got != (cpus <= want) {
					t.Errorf("%s: room for %d is %v", when, cpus, got)
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
