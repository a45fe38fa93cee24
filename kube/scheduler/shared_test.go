package scheduler

import (
	"strings"
	"testing"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/generated/clientset/versioned"
	topologyfake "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/generated/clientset/versioned/fake"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"
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

var withFakeTopologies = environment{now: time.Now,
	topologies: func(*rest.Config) (versioned.Interface, error) { return topologyfake.NewSimpleClientset(), nil }}

// The plugins of two profiles share their reservations, because they decide about the same nodes.
// Plugins of two schedulers in one process share nothing.
func TestProfilesShareReservations(t *testing.T) {
	newHandle := func() fwk.Handle {
		client := fake.NewSimpleClientset()
		return handleOf{informers: informers.NewSharedInformerFactory(client, 0), client: client}
	}
	newOf := func(handle fwk.Handle, args string) *Plugin {
		p, err := newPlugin(t.Context(), &runtime.Unknown{Raw: []byte(args)}, handle, withFakeTopologies)
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
	_, err := newPlugin(t.Context(), &runtime.Unknown{Raw: []byte("minSharedCPUs: -1")}, handle, withFakeTopologies)
	if err == nil || !strings.Contains(err.Error(), "minSharedCPUs is -1") {
		t.Errorf("got %v", err)
	}
}
