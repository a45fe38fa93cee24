package agents

import (
	"os"
	"testing"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

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
	gives := func(allocates bool, uids ...types.UID) nodetopology.State {
		given := &api.Given{Allocates: allocates, Pods: map[types.UID]api.Allocation{}}
		for _, uid := range uids {
			given.Pods[uid] = api.Allocation{Version: 1, Node: "n", Policy: placement.StaticBurst,
				Containers: []api.ContainerAllocation{{Name: "app", NUMANodes: []topology.NUMAID{0}}}}
		}
		return nodetopology.State{KubeletPolicy: "none", Given: given}
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
		{"other CPUs", func() bool { return set(large, none, "3", "a") }, true},
		{"another kubelet", func() bool { return set(large, nodetopology.State{KubeletPolicy: "static"}, "4", "a") }, true},
		{"another node", func() bool { return set(large, none, "5", "b") }, true},
		{"deleted", func() bool { return reports.Remove(reports.Named("n")) && reports.Named("n") == nil }, true},
		{"new again", func() bool { return set(large, none, "5", "b") }, true},
		{"the agent allocates", counts(func() bool { return set(large, gives(true), "6", "b") }), true},
		{"it gives", func() bool { return set(large, gives(true, "p"), "7", "b") }, true},
		{"the same content", func() bool { return set(large, gives(true, "p"), "8", "b") }, false},
		{"it gives, which changes no node that fits", counts(func() bool { return set(large, gives(true, "p", "q"), "9", "b") }), false},
		{"the scheduler allocates", counts(func() bool { return set(large, gives(false, "p", "q"), "10", "b") }), true},
		{"a pod of the agent ends", counts(func() bool { return set(large, gives(false, "p"), "11", "b") }), true},
	} {
		if got := step.do(); got != step.want {
			t.Errorf("%s: changed %v, want %v", step.name, got, step.want)
		}
	}
}

// While agents are upgraded, nodes have objects of the first version, of the present one, or both.
func TestVersions(t *testing.T) {
	reports := New("", 0, time.Now)
	read := func(object any) *Report {
		t.Helper()
		kept, err := reports.Transform(object)
		if err != nil {
			t.Fatal(err)
		}
		return kept.(*Report)
	}
	text, err := os.ReadFile("../../nodetopology/testdata/legacy-intel104.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var first v1alpha2.NodeResourceTopology
	if err := yaml.UnmarshalStrict(text, &first); err != nil {
		t.Fatal(err)
	}
	now, err := nodetopology.FromMachine(first.Name, topology.AMD256().MustBuild(), nodetopology.State{})
	if err != nil {
		t.Fatal(err)
	}
	old, present, foreign := read(&first), read(now), first.DeepCopy()
	foreign.Labels = nil
	for _, step := range []struct {
		name    string
		do      func() bool
		changed bool
		want    *Report // that counts
	}{
		{"an agent of the first version", func() bool { return reports.Set(old) }, true, old},
		{"it is upgraded", func() bool { return reports.Set(present) }, true, present},
		{"its old object is seen again", func() bool { return reports.Set(old) }, false, present},
		{"its new object is deleted, to go back", func() bool { return reports.Remove(present) }, true, old},
		{"it is upgraded again", func() bool { return reports.Set(present) }, true, present},
		{"its old object is deleted", func() bool { return reports.Remove(old) }, false, present},
		{"the node is deleted", func() bool { return reports.Remove(present) }, true, nil},
		{"another node of the first version", func() bool { return reports.Set(old) }, true, old},
		{"another program takes its object over", func() bool { return reports.Set(read(foreign)) }, true, nil},
	} {
		changed := step.do()
		have := reports.Named(first.Name)
		if changed != step.changed || (have == nil) != (step.want == nil) || have != nil && have.Index != step.want.Index {
			t.Errorf("%s: changed %v, want %v; %+v counts, want %+v", step.name, changed, step.changed, have, step.want)
		}
	}
}
