package placement

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/core/topology/topologytest"
)

const bruteCPUs = 16 // of the drawn machines; each case enumerates up to C(16,8) sets

// drawMachine draws a regular or an irregular machine.
func drawMachine(t *rapid.T) *topology.Machine {
	if rapid.Bool().Draw(t, "regular") {
		m := topologytest.RandomShape(t, bruteCPUs).MustBuild()
		return drawDistances(t, m)
	}
	return topologytest.RandomUpTo(t, bruteCPUs)
}

// drawDistances draws distances, with many or few ties, for the nodes of a regular machine.
func drawDistances(t *rapid.T, m *topology.Machine) *topology.Machine {
	for i := range m.NUMANodes {
		for j := range m.NUMANodes {
			if i != j {
				m.NUMANodes[i].Distances[j] = rapid.SampledFrom([]int{12, 12, 20, 32}).Draw(t, "distance")
			}
		}
	}
	return m
}

func drawFree(t *rapid.T, m *topology.Machine) cpuset.Set {
	var free cpuset.Set
	mostly := rapid.IntRange(0, 3).Draw(t, "mostly")
	for _, c := range m.CPUs {
		if rapid.IntRange(0, 3).Draw(t, "isFree") >= mostly {
			free.Add(c.ID)
		}
	}
	return free
}

func drawRequest(t *rapid.T, m *topology.Machine) Request {
	req := Request{
		CPUs:      rapid.IntRange(1, len(m.CPUs)).Draw(t, "cpus"),
		Policy:    Static,
		FullCores: rapid.SampledFrom([]FullCores{FullCoresPreferred, FullCoresPreferred, FullCoresRequired}).Draw(t, "fullCores"),
	}
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 2, 3}).Draw(t, "limits") {
		l := Limit{CPUs: rapid.IntRange(0, req.CPUs).Draw(t, "limit")}
		for _, n := range m.NUMANodes {
			if rapid.Bool().Draw(t, "limitedNode") {
				l.NUMANodes = append(l.NUMANodes, n.ID)
			}
		}
		req.Limits = append(req.Limits, l)
	}
	return req
}

// TestStaticIsOptimal compares criteria 1 to 6 with every possible choice.
func TestStaticIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMachine(t)
		ix, b := NewIndex(m), newBrute(m)
		for range 25 {
			free, req := drawFree(t, m), drawRequest(t, m)
			checkOptimal(t, ix, b, free, req)
		}
	})
}

func checkOptimal(t *rapid.T, ix *Index, b *brute, free cpuset.Set, req Request) {
	want, possible := b.best(free, req)
	got, err := ix.Place(free, req)
	var insufficient *InsufficientError
	switch {
	case errors.As(err, &insufficient) && !possible:
		if insufficient.Want != req.CPUs || insufficient.Have < 0 {
			t.Fatalf("free %v, %+v: wrong figures in the error: %+v", free, req, insufficient)
		}
		return
	case err != nil || !possible:
		t.Fatalf("free %v, %+v: got %v, %v; reference finds a placement: %v (%+v)", free, req, got.CPUs, err, possible, want)
	}
	if !got.CPUs.IsSubsetOf(free) || got.CPUs.Len() != req.CPUs {
		t.Fatalf("free %v, %+v: got %v", free, req, got.CPUs)
	}
	set := b.bitsOf(got.CPUs)
	have := b.score(set)
	if !b.allowed(set, req, have) {
		t.Fatalf("free %v, %+v: got %v, which violates a constraint", free, req, got.CPUs)
	}
	if have.compare(want) != 0 {
		t.Fatalf("free %v, %+v: got %v with %+v, best is %+v", free, req, got.CPUs, have, want)
	}
	quality := Quality{Kinds: have.designs, NUMANodes: have.nodes, Distance: have.distance, SplitCores: have.splits, LLCs: ix.Quality(got.CPUs).LLCs}
	got.Quality.Packages = 0
	if got.Quality != quality || !got.Exact {
		t.Fatalf("free %v, %+v: got %v with quality %+v, want %+v", free, req, got.CPUs, got.Quality, quality)
	}
}

// TestFragmentation compares criterion 7 with every possible choice.
func TestFragmentation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMachine(t)
		ix, b := NewIndex(m), newBrute(m)
		free, req := drawFree(t, m).Intersection(m.Balanced()), drawRequest(t, m)
		got, err := ix.Place(free, req)
		if err != nil {
			return
		}
		chosen, all := b.bitsOf(got.CPUs), b.bitsOf(free)
		best := b.score(chosen)
		nodes, llcs := b.freeCores(all, chosen)
		subsetsOf(all, req.CPUs, func(set uint32) {
			if s := b.score(set); s.compare(best) != 0 || !b.allowed(set, req, s) {
				return
			}
			otherNodes, otherLLCs := b.freeCores(all, set)
			if c := slices.Compare(otherNodes, nodes); c > 0 || c == 0 && slices.Compare(otherLLCs, llcs) > 0 {
				t.Fatalf("free %v, %+v: got %v leaving %v, %v; %016b leaves %v, %v", free, req, got.CPUs, nodes, llcs, set, otherNodes, otherLLCs)
			}
		})
	})
}

// TestStaticBurstIsOptimal compares the chosen NUMA nodes with every set of nodes: they must be the
// fewest that have n shared CPUs and are admitted, at the least distance.
func TestStaticBurstIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMachine(t)
		ix, b := NewIndex(m), newBrute(m)
		shared := drawFree(t, m).Intersection(m.Balanced())
		req := Request{CPUs: rapid.IntRange(1, len(m.CPUs)).Draw(t, "cpus"), Policy: StaticBurst}
		needed := drawFree(t, m).Intersection(shared)
		if rapid.Bool().Draw(t, "admit") && !needed.IsEmpty() {
			req.Admit = func(nodes []topology.NUMAID) bool { return m.CPUsOfNUMA(nodes...).Intersects(needed) }
		}
		ids := nodeIDsOf(m)
		best, found := score{}, false
		for set := 1; set < 1<<len(ids); set++ {
			cpus, nodes := confinement(m, ids, set, shared)
			if cpus.Len() < req.CPUs || req.Admit != nil && !req.Admit(nodes) {
				continue
			}
			s := score{nodes: len(nodes)}
			for _, x := range nodes {
				for _, y := range nodes {
					if x != y {
						s.distance += m.Distance(x, y)
					}
				}
			}
			if !found || s.compare(best) < 0 {
				best, found = s, true
			}
		}
		got, err := ix.Place(shared, req)
		if (err == nil) != found {
			t.Fatalf("got %v, %v; reference finds one: %v", got, err, found)
		}
		if !found {
			return
		}
		have := b.score(b.bitsOf(got.CPUs))
		if have.nodes != best.nodes || have.distance != best.distance || got.CPUs.Len() < req.CPUs {
			t.Fatalf("shared %v, %d CPUs: got %v (%+v), best %+v", shared, req.CPUs, got.CPUs, have, best)
		}
	})
}

func nodeIDsOf(m *topology.Machine) []topology.NUMAID {
	var ids []topology.NUMAID
	for _, c := range m.CPUs {
		if !slices.Contains(ids, c.NUMA) {
			ids = append(ids, c.NUMA)
		}
	}
	slices.Sort(ids)
	return ids
}

// confinement returns the shared CPUs of a set of nodes and the nodes.
func confinement(m *topology.Machine, ids []topology.NUMAID, set int, shared cpuset.Set) (cpus cpuset.Set, nodes []topology.NUMAID) {
	for i, id := range ids {
		if set>>i&1 == 1 {
			nodes = append(nodes, id)
		}
	}
	for _, c := range m.CPUs {
		if slices.Contains(nodes, c.NUMA) && shared.Contains(c.ID) {
			cpus.Add(c.ID)
		}
	}
	return cpus, nodes
}
