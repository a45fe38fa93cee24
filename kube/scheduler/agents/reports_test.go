package agents

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// A new version of a topology counts as a change only if its content differs.
func TestTopologyChanges(t *testing.T) {
	reports := New("", 0, time.Now)
	set := func(shape topology.Shape, state nodetopology.State, version string, owner types.UID) bool {
		t.Helper()
		obj, err := nodetopology.FromMachine("n", shape.MustBuild(), state)
		if err != nil {
			t.Fatal(err)
		}
		nodetopology.OwnedByNode(obj, owner)
		obj.ResourceVersion = version
		kept, err := reports.Transform(obj)
		if err != nil {
			t.Fatal(err)
		}
		return reports.Set(kept.(*Report))
	}
	small, large := topology.Shape{CoresPerLLC: 2}, topology.Shape{CoresPerLLC: 4}
	none := nodetopology.State{KubeletPolicy: "none"}
	for _, step := range []struct {
		name string
		do   func() bool
		want bool
	}{
		{"new", func() bool { return set(small, none, "1", "a") }, true},
		{"same content", func() bool { return set(small, none, "2", "a") }, false},
		{"other CPUs", func() bool { return set(large, none, "3", "a") }, true},
		{"another kubelet", func() bool { return set(large, nodetopology.State{KubeletPolicy: "static"}, "4", "a") }, true},
		{"another node", func() bool { return set(large, none, "5", "b") }, true},
		{"deleted", func() bool { reports.Remove("n"); return reports.Named("n") == nil }, true},
		{"new again", func() bool { return set(large, none, "5", "b") }, true},
	} {
		if got := step.do(); got != step.want {
			t.Errorf("%s: changed %v, want %v", step.name, got, step.want)
		}
	}
}
