package scheduler

import (
	"strings"
	"testing"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/generated/clientset/versioned"
	topologyfake "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/generated/clientset/versioned/fake"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"
)

// handleOf is as much of a framework handle as making a plugin needs.
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

// The plugins of two profiles decide about the same nodes: each sees what the other
// has reserved. Plugins of two schedulers in one process share nothing.
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

func TestNewRefusesBadArguments(t *testing.T) {
	handle := handleOf{informers: informers.NewSharedInformerFactory(fake.NewSimpleClientset(), 0)}
	_, err := newPlugin(t.Context(), &runtime.Unknown{Raw: []byte("minSharedCPUs: -1")}, handle, fakeTopologies)
	if err == nil || !strings.Contains(err.Error(), "minSharedCPUs is -1") {
		t.Errorf("got %v", err)
	}
}

// Two watches and the hints bring objects in any order; the newest stays.
func TestTopologiesKeepTheNewest(t *testing.T) {
	object := func(version string) *v1alpha2.NodeResourceTopology {
		return &v1alpha2.NodeResourceTopology{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: version}}
	}
	topologies := newTopologies(newHeartbeats("", 0))
	version := func() string {
		if t := topologies.get("n"); t != nil {
			return t.resourceVersion
		}
		return "none"
	}
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() { topologies.set(object("9")) }, "9"},
		{func() { topologies.set(object("10")) }, "10"},
		{func() { topologies.set(object("9")) }, "10"},
		{func() { topologies.remove("n", "9") }, "10"},
		{func() { topologies.remove("n", "11") }, "none"},
		{func() { topologies.set(object("12")) }, "12"},
		{func() { topologies.remove("n", "11") }, "12"}, // deleted before it was created again
		{func() { topologies.remove("n", "13") }, "none"},
		{func() { topologies.set(object("12")) }, "none"}, // by the watch that is behind
		{func() { topologies.set(object("13")) }, "none"},
		{func() { topologies.set(object("14")) }, "14"},
	} {
		step.do()
		if got := version(); got != step.want {
			t.Errorf("got version %s, want %s", got, step.want)
		}
	}
}
