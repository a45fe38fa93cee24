package ledger

import (
	"errors"
	"fmt"
	"testing"

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
