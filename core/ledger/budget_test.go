package ledger

import (
	"errors"
	"fmt"
	"testing"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// Static-burst pods that overlap so that the largest number of CPUs is that of the independent nodes
// of a graph. The books must not try all sets of nodes: they find the CPUs or give up, always alike.
func TestOverlappingConfinementsEnd(t *testing.T) {
	const nodes = 40
	index := placement.NewIndex(topology.Shape{NUMAPerPackage: nodes, CoresPerLLC: 1}.MustBuild())
	books := New(index, Config{})
	for i := range nodes {
		for _, stride := range []int{1, 7, 16} {
			ids := []topology.NUMAID{topology.NUMAID(i), topology.NUMAID((i + stride) % nodes)}
			books.Add(Claim{ID: PodID(fmt.Sprint(i, "+", stride)), Containers: []ContainerClaim{{Name: "main",
				Policy: placement.StaticBurst, Limit: 1, Request: 1, NUMANodes: ids}}})
		}
	}
	found, gaveUp := 0, 0
	for cpus := 1; cpus <= nodes; cpus++ {
		ask := Ask{Containers: []ContainerAsk{{Name: "main", CPUs: cpus}}}
		d, err := books.Decide(ask)
		var refused *ExclusiveError
		switch {
		case err == nil && found == cpus-1:
			found++
		case errors.As(err, &refused) && refused.GaveUp:
			gaveUp++
		case !errors.As(err, &refused) || refused.Have >= cpus:
			t.Errorf("%d CPUs: got %s, %v", cpus, d.CPUs, err)
		}
		if _, again := books.Rate(ask); fmt.Sprint(again) != fmt.Sprint(err) {
			t.Errorf("%d CPUs: %v, and when asked again %v", cpus, err, again)
		}
	}
	if found < 10 || gaveUp == 0 {
		t.Errorf("%d CPUs were found, and %d searches given up: want at least 10, and 1", found, gaveUp)
	}
}

// Books whose own flow exhausts the budget serve less than possible, so nothing may be taken by it.
func TestUnfinishedFlow(t *testing.T) {
	books := New(placement.NewIndex(topology.Shape{NUMAPerPackage: 2, CoresPerLLC: 2}.MustBuild()), Config{})
	books.Add(Claim{ID: "burst", Containers: []ContainerClaim{{Name: "main", Policy: placement.StaticBurst, Limit: 2, Request: 2000,
		NUMANodes: []topology.NUMAID{0}}}})
	ask := Ask{Containers: []ContainerAsk{{Name: "main", CPUs: 3}}}
	d := books.digested
	d.once.Do(func() {
		d.served = books.serve(cpuset.Set{}, new(placement.Budget))
		d.search = books.prepareSearch(d.served)
	})
	var refused *ExclusiveError
	if got, err := books.Decide(ask); !errors.As(err, &refused) || !refused.GaveUp {
		t.Errorf("got %s, %v", got.CPUs, err)
	}
}

// The search for the CPUs of the first of many containers may exhaust the budget: the others get the
// lowest CPUs of the pod.
func TestManyContainersAreDivided(t *testing.T) {
	m := topology.Shape{CoresPerLLC: 512, ThreadsPerCore: 2}.MustBuild()
	for i := range m.CPUs {
		m.CPUs[i].Kind = topology.ClockKind("", 1+int(m.CPUs[i].Core)%8)
	}
	m.Kinds = topology.KindsOf(m.CPUs)
	var ask Ask
	for i := range 256 {
		ask.Containers = append(ask.Containers, ContainerAsk{Name: fmt.Sprint(i), CPUs: 1 + i%4})
	}
	d, err := New(placement.NewIndex(m), Config{}).Decide(ask)
	if err != nil {
		t.Fatal(err)
	}
	var all cpuset.Set
	for i, c := range d.Containers {
		if c.CPUs.Len() != ask.Containers[i].CPUs || c.CPUs.Intersects(all) || !c.CPUs.IsSubsetOf(d.CPUs) {
			t.Errorf("container %d of %d CPUs gets %s of %s", i, ask.Containers[i].CPUs, c.CPUs, d.CPUs)
		}
		all = all.Union(c.CPUs)
	}
}
