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
