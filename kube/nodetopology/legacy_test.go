package nodetopology

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/topology"
)

// legacy returns an object that an agent of the first version has written.
func legacy(t *testing.T, name string) *v1alpha2.NodeResourceTopology {
	t.Helper()
	text, err := os.ReadFile("testdata/legacy-" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var object v1alpha2.NodeResourceTopology
	if err := yaml.UnmarshalStrict(text, &object); err != nil {
		t.Fatal(err)
	}
	return &object
}

func TestLegacyObjects(t *testing.T) {
	for name, want := range map[string]*topology.Machine{"intel104": topology.Intel104().MustBuild(), "odd": oddMachine()} {
		object := legacy(t, name)
		object.Zones = append(object.Zones, v1alpha2.Zone{Name: "core-0", Type: "Core"}) // of another program
		object.Zones[0].Attributes = append(object.Zones[0].Attributes, v1alpha2.AttributeInfo{Name: "other", Value: "x"})
		m, state, err := ToMachine(FromLegacy(object))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, m, cmpopts.EquateEmpty(), cmp.Comparer(cpusEqual)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		state.Writer = someState.Writer
		if state != someState {
			t.Errorf("%s: state %+v, want %+v", name, state, someState)
		}
	}
}

func TestDamagedLegacyObject(t *testing.T) {
	object := legacy(t, "intel104")
	object.Zones[0].Attributes[0].Value = "0-24,52-77"
	if m, _, err := ToMachine(FromLegacy(object)); err == nil {
		t.Errorf("read as %v", m)
	}
}

func TestLegacy(t *testing.T) {
	ours, taken, unlabelled, empty := legacy(t, "odd"), legacy(t, "odd"), legacy(t, "odd"), legacy(t, "odd")
	taken.Zones = v1alpha2.ZoneList{{Name: "node-0", Type: "Node"}} // as Node Feature Discovery does under our label
	unlabelled.Labels, empty.Zones = nil, nil
	for i, want := range []bool{true, false, false, true} {
		if got := Legacy([]*v1alpha2.NodeResourceTopology{ours, taken, unlabelled, empty}[i]); got != want {
			t.Errorf("object %d: ours: %v, want %v", i, got, want)
		}
	}
}
