package scheduler

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/nodetopology/nodetopologytest"
	"pinfold.dev/pinfold/test/must"
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
	topologies: func(*rest.Config) (nodetopology.Client, error) { return nodetopologytest.NewFake(), nil }}

// The plugins of two profiles share what nodes report. Plugins of two schedulers in one process share
// nothing.
func TestProfilesShareReports(t *testing.T) {
	newHandle := func() fwk.Handle {
		client := fake.NewSimpleClientset()
		return handleOf{informers: informers.NewSharedInformerFactory(client, 0), client: client}
	}
	newOf := func(handle fwk.Handle, args string) *Plugin {
		return must.Get(newPlugin(t.Context(), &runtime.Unknown{Raw: []byte(args)}, handle, withFakeTopologies))(t)
	}
	one, other := newHandle(), newHandle()
	a, b := newOf(one, "{}"), newOf(one, `{"scoringStrategy":"MostAllocated"}`)
	if a.shared != b.shared {
		t.Error("two profiles of one scheduler do not share reports")
	}
	if c := newOf(other, "{}"); c.shared == a.shared {
		t.Error("two schedulers share reports")
	}
	if a.args.ScoringStrategy == b.args.ScoringStrategy {
		t.Error("two profiles share their arguments")
	}
}

// TestNoDefinition: a scheduler that starts in a cluster without the definition of NodeTopology, or
// with an API server that does not answer about it, schedules the pods that do not ask. The others
// wait until there are topologies, and say so as soon as the list has been read.
func TestNoDefinition(t *testing.T) {
	for name, tt := range map[string]struct {
		err     error
		message string
	}{
		"no definition":  {apierrors.NewNotFound(schema.GroupResource{}, ""), "apply deploy/chart/crds/nodetopology.yaml"},
		"another answer": {apierrors.NewInternalError(errors.New("out of order")), "could not be listed yet"},
	} {
		t.Run(name, func(t *testing.T) {
			topologies := nodetopologytest.NewFake()
			var works atomic.Bool
			topologies.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return !works.Load(), nil, tt.err })
			c := &fakeCluster{t: t, topologies: topologies, syncTimeout: time.Second}
			c.start(DefaultConfiguration)
			s := &scenario{fakeCluster: c}
			s.addNode("n1", strings.Fields("packages=1 cores=4"))
			for _, pod := range []*corev1.Pod{s.podOf("plain", []string{"request=1"}), s.podOf("asks", []string{"cpus=2"})} {
				s.must(c.client.Tracker().Add(pod))
			}
			state := func(name string) string {
				pod, err := c.client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
				s.must(err)
				return pod.Spec.NodeName + condition(*pod)
			}
			c.eventually("the pod that does not ask is not bound", func() bool { return state("plain") == "n1" })
			c.eventually("the pod that asks does not say why it waits", func() bool { return strings.Contains(state("asks"), tt.message) })
			works.Store(true)
			c.eventually("the pod that asks does not learn that the list has been read", func() bool { return strings.Contains(state("asks"), "has not reported its CPU topology") })
			c.eventually("the topologies are not watched", func() bool {
				return slices.ContainsFunc(topologies.Actions(), func(a clienttesting.Action) bool {
					w, watches := a.(clienttesting.WatchActionImpl)
					return watches && w.ListOptions.SendInitialEvents == nil
				})
			})
			s.report("n1", strings.Fields("packages=1 cores=4"))
			c.eventually("the pod that asks still waits", func() bool { return state("asks") == "n1" })
		})
	}
}
