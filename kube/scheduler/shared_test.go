package scheduler

import (
	"strings"
	"testing"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/generated/clientset/versioned"
	topologyfake "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/generated/clientset/versioned/fake"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// handleOf is a framework handle for newPlugin.
type handleOf struct {
	fwk.Handle
	informers informers.SharedInformerFactory
	client    *fake.Clientset
}

func (h handleOf) SharedInformerFactory() informers.SharedInformerFactory { return h.informers }
func (h handleOf) ClientSet() kubernetes.Interface                        { return h.client }
func (h handleOf) KubeConfig() *rest.Config                               { return &rest.Config{} }

func fakeTopologies(*rest.Config) (versioned.Interface, error) {
	return topologyfake.NewSimpleClientset(), nil
}

// The plugins of two profiles share their reservations, because they decide about the same nodes.
// Plugins of two schedulers in one process share nothing.
func TestProfilesShareReservations(t *testing.T) {
	newHandle := func() fwk.Handle {
		client := fake.NewSimpleClientset()
		return handleOf{informers: informers.NewSharedInformerFactory(client, 0), client: client}
	}
	newOf := func(handle fwk.Handle, args string) *Plugin {
		p, err := newPlugin(t.Context(), &runtime.Unknown{Raw: []byte(args)}, handle, fakeTopologies)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	one, other := newHandle(), newHandle()
	a, b := newOf(one, "{}"), newOf(one, `{"scoringStrategy":"MostAllocated"}`)
	if a.shared != b.shared {
		t.Error("two profiles of one scheduler do not share their reservations")
	}
	if c := newOf(other, "{}"); c.shared == a.shared {
		t.Error("two schedulers share their reservations")
	}
	if a.args.ScoringStrategy == b.args.ScoringStrategy {
		t.Error("two profiles share their arguments")
	}
}

func TestNewPluginRejectsBadArguments(t *testing.T) {
	handle := handleOf{informers: informers.NewSharedInformerFactory(fake.NewSimpleClientset(), 0)}
	_, err := newPlugin(t.Context(), &runtime.Unknown{Raw: []byte("minSharedCPUs: -1")}, handle, fakeTopologies)
	if err == nil || !strings.Contains(err.Error(), "minSharedCPUs is -1") {
		t.Errorf("got %v", err)
	}
}

// A new version of a topology counts as a change only if its content differs.
func TestTopologyChanges(t *testing.T) {
	topologies := newTopologies(newHeartbeats("", 0))
	set := func(shape topology.Shape, state nodetopology.State, version string, owner types.UID) bool {
		t.Helper()
		obj, err := nodetopology.FromMachine("n", shape.MustBuild(), state)
		if err != nil {
			t.Fatal(err)
		}
		nodetopology.OwnedByNode(obj, owner)
		obj.ResourceVersion = version
		kept, err := topologies.transform(obj)
		if err != nil {
			t.Fatal(err)
		}
		return topologies.set(kept.(*nodeTopology))
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
		{"deleted", func() bool { topologies.remove("n"); return topologies.get("n") == nil }, true},
		{"new again", func() bool { return set(large, none, "5", "b") }, true},
	} {
		if got := step.do(); got != step.want {
			t.Errorf("%s: changed %v, want %v", step.name, got, step.want)
		}
	}
}
