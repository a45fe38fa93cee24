package agents

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/test/must"
)

// A new version of a topology counts as a change only if its content differs.
func TestTopologyChanges(t *testing.T) {
	reports := New("", 0, time.Now)
	set := func(shape topology.Shape, state nodetopology.State, version string, owner types.UID) bool {
		t.Helper()
		obj := must.Get(nodetopology.FromMachine("n", shape.MustBuild(), state))(t)
		nodetopology.OwnedByNode(obj, owner)
		obj.ResourceVersion = version
		kept := must.Get(reports.Transform(obj))(t)
		return reports.Set(kept.(*Report))
	}
	small, large := topology.Shape{CoresPerLLC: 2}, topology.Shape{CoresPerLLC: 4}
	none := nodetopology.State{KubeletPolicy: "none"}
	allocated := func(uids ...types.UID) nodetopology.State {
		all := api.Allocations{}
		for _, uid := range uids {
			all[uid] = api.Allocation{Version: 1, Node: "n", Policy: placement.StaticBurst,
				Containers: []api.ContainerAllocation{{Name: "app", NUMANodes: []topology.NUMAID{0}}}}
		}
		return nodetopology.State{KubeletPolicy: "none", Allocations: all}
	}
	// counts reports whether a step changes what fits where.
	counts := func(do func() bool) func() bool {
		return func() bool { before := reports.Changes(); return do() && reports.Changes() > before }
	}
	for _, step := range []struct {
		name string
		do   func() bool
		want bool
	}{
		{"new", func() bool { return set(small, none, "1", "a") }, true},
		{"same content", func() bool { return set(small, none, "2", "a") }, false},
		{"what is for people", func() bool {
			return set(small, nodetopology.State{KubeletPolicy: "none", Findings: []nodetopology.Finding{{Reason: "CPUsNotGiven"}}}, "2", "a")
		}, false},
		{"other CPUs", func() bool { return set(large, none, "3", "a") }, true},
		{"another kubelet", func() bool { return set(large, nodetopology.State{KubeletPolicy: "static"}, "4", "a") }, true},
		{"another node", func() bool { return set(large, none, "5", "b") }, true},
		{"deleted", func() bool { return reports.Remove(reports.Named("n")) && reports.Named("n") == nil }, true},
		{"new again", func() bool { return set(large, none, "5", "b") }, true},
		{"the agent allocates", counts(func() bool { return set(large, allocated(), "6", "b") }), true},
		{"it has allocated", func() bool { return set(large, allocated("p"), "7", "b") }, true},
		{"the same content", func() bool { return set(large, allocated("p"), "8", "b") }, false},
		{"it has allocated, which is predicted", counts(func() bool { return set(large, allocated("p", "q"), "9", "b") }), false},
		{"an earlier agent", counts(func() bool { return set(large, none, "10", "b") }), true},
	} {
		if got := step.do(); got != step.want {
			t.Errorf("%s: changed %v, want %v", step.name, got, step.want)
		}
	}
}
