package ledger

import (
	"errors"
	"fmt"
	"testing"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// Books whose split exhausts its budget serve less than possible, so nothing may be taken.
func TestUnfinishedSplit(t *testing.T) {
	books := New(placement.NewIndex(topology.Shape{NUMAPerPackage: 2, CoresPerLLC: 2}.MustBuild()), Config{})
	books.Add(Claim{ID: "burst", Containers: []ContainerClaim{{Name: "main", Policy: placement.StaticBurst, Limit: 2, Request: 2000,
		NUMANodes: []topology.NUMAID{0}}}})
	books.split(new(placement.Budget))
	var refused *ExclusiveError
	if got, err := books.Decide(Ask{Containers: []ContainerAsk{{Name: "main", CPUs: 1}}}); !errors.As(err, &refused) || refused.Have != 0 {
		t.Errorf("got %s, %v", got.CPUs, err)
	}
}

// One of many decisions has a part of the budget, for the amounts and for its search.
func TestManyDecisions(t *testing.T) {
	const nodes = 40
	index, free := placement.NewIndex(topology.Shape{NUMAPerPackage: nodes + 1, CoresPerLLC: 1}.MustBuild()), topology.NUMAID(nodes)
	var claims []Claim
	for i := range nodes {
		for _, stride := range []int{1, 7, 16} { // together as much as they have, so that amounts have to move
			claims = append(claims, Claim{ID: PodID(fmt.Sprint(i, "+", stride)), Containers: []ContainerClaim{{Name: "main", Policy: placement.StaticBurst,
				Limit: 1, Request: 333, NUMANodes: []topology.NUMAID{topology.NUMAID(i), topology.NUMAID((i + stride) % nodes)}}}})
		}
	}
	ask := Ask{Containers: []ContainerAsk{{Name: "main", CPUs: 1}}}
	d, err := New(index, Config{}, claims...).Decide(ask)
	if want := index.Machine().CPUsOfNUMA(free); err != nil || d.CPUs != want {
		t.Errorf("a single decision: CPUs %s, %v; want %s", d.CPUs, err, want)
	}
	if d, err := New(index, Config{Decisions: 5000}, claims...).Decide(ask); err == nil {
		t.Errorf("one of many decisions has as much time as a single one, and finds %s", d.CPUs)
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
