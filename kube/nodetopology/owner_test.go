package nodetopology

import (
	"errors"
	"testing"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/topology"
)

func managedBy(manager string, at int64) metav1.ManagedFieldsEntry {
	when := metav1.NewTime(time.Unix(at, 0))
	return metav1.ManagedFieldsEntry{Manager: manager, Time: &when}
}

// foreign returns an object such as that of Node Feature Discovery's topology updater.
func foreign() *v1alpha2.NodeResourceTopology {
	return &v1alpha2.NodeResourceTopology{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", ManagedFields: []metav1.ManagedFieldsEntry{
			managedBy("older", 50), managedBy("nfd-topology-updater", 100), managedBy("oldest", 10), {Manager: "timeless"},
		}},
		Attributes: v1alpha2.AttributeList{{Name: "topologyManagerPolicy", Value: "none"}},
		Zones: v1alpha2.ZoneList{{Name: "node-0", Type: "Node", Costs: v1alpha2.CostList{{Name: "node-0", Value: 10}},
			Resources: v1alpha2.ResourceInfoList{{Name: "cpu"}}}},
	}
}

func TestOwner(t *testing.T) {
	ours := encode(t, topology.Intel104().MustBuild(), State{})
	taken := ours.DeepCopy()
	taken.Zones, taken.ManagedFields = foreign().Zones, foreign().ManagedFields
	empty := ours.DeepCopy()
	empty.Zones = nil
	for _, tt := range []struct {
		name   string
		obj    *v1alpha2.NodeResourceTopology
		writer string
		ours   bool
	}{
		{"ours", ours, "agent", true},
		{"foreign", foreign(), "nfd-topology-updater", false},
		{"zones replaced under our label", taken, "nfd-topology-updater", false},
		{"ours without zones", empty, "agent", true},
		{"no writer", &v1alpha2.NodeResourceTopology{}, "unknown writer", false},
	} {
		writer, isOurs := Owner(tt.obj)
		if writer != tt.writer || isOurs != tt.ours {
			t.Errorf("%s: Owner = %q, %v; want %q, %v", tt.name, writer, isOurs, tt.writer, tt.ours)
		}
		if _, _, err := ToMachine(tt.obj); errors.Is(err, ErrForeign) == tt.ours {
			t.Errorf("%s: ToMachine: %v", tt.name, err)
		}
	}
	_, _, err := ToMachine(foreign())
	const want = "NodeResourceTopology n1 was written by another program (nfd-topology-updater): " +
		"stop that writer on the node or delete the object, then the Pinfold agent publishes its own"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestEqual(t *testing.T) {
	m := topology.Intel104().MustBuild()
	a := encode(t, m, State{})
	b := throughJSON(t, a)
	b.ResourceVersion, b.UID, b.Labels["extra"] = "7", "u", "x"
	if !Equal(a, b) {
		t.Error("fields set by the API server make objects differ")
	}
	if Equal(a, encode(t, m, State{AgentHealth: "ill"})) {
		t.Error("a change of state is not detected")
	}
	m.CPUs[0].ID, m.CPUs[0].Core = 0, 60
	if Equal(a, encode(t, m, State{})) {
		t.Error("a change of the machine is not detected")
	}
	OwnedByNode(a, "first")
	again := throughJSON(t, a)
	if !Equal(a, again) || NodeUID(again) != "first" {
		t.Errorf("the owner is lost: %q", NodeUID(again))
	}
	if OwnedByNode(again, "second"); Equal(a, again) {
		t.Error("another node of the same name is not detected")
	}
	b.Labels = nil
	if Equal(a, b) {
		t.Error("a lost label is not detected")
	}
}
