package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/scheduler"
)

// cluster is nodes and a kube-scheduler for them.
type cluster struct {
	framework framework.Framework
	nodes     []*framework.NodeInfo
	rng       *rand.Rand // chooses among equal nodes
	// plugin is that of Pinfold's scheduler, or nil.
	plugin *scheduler.Plugin
}

// newCluster starts a scheduler until ctx ends. options have its configuration.
func newCluster(ctx context.Context, nodes []*corev1.Node, objects http.RoundTripper, rng *rand.Rand, pinfold bool) (*cluster, error) {
	c := &cluster{rng: rng}
	var options []kubescheduler.Option // stock
	if pinfold {
		var err error
		if options, err = c.withPinfold(); err != nil {
			return nil, err
		}
	}
	client := fake.NewClientset()
	snapshot, informers := internalcache.NewSnapshot(nil, nodes), kubescheduler.NewInformerFactory(client, 0, nil)
	all, err := kubescheduler.New(ctx, client, informers, nil, profile.NewRecorderFactory(events.NewBroadcaster(&events.EventSinkImpl{})),
		append(options, kubescheduler.WithNodeInfoSnapshot(snapshot),
			kubescheduler.WithKubeConfig(&rest.Config{Host: "http://topologies", Transport: objects}))...)
	if err != nil {
		return nil, fmt.Errorf("start a scheduler: %w", err)
	}
	c.framework = all.Profiles[corev1.DefaultSchedulerName]
	informers.StartWithContext(ctx)
	informers.WaitForCacheSyncWithContext(ctx)
	for _, node := range nodes {
		info, err := snapshot.Get(node.Name)
		if err != nil {
			return nil, err
		}
		c.nodes = append(c.nodes, info.(*framework.NodeInfo))
	}
	return c, nil
}

// withPinfold returns the configuration that Pinfold installs.
func (c *cluster) withPinfold() ([]kubescheduler.Option, error) {
	configuration, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte(scheduler.DefaultConfiguration), nil, nil)
	if err != nil {
		return nil, fmt.Errorf("configuration of Pinfold's scheduler: %w", err)
	}
	factory := func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		p, err := scheduler.New(ctx, args, handle)
		c.plugin, _ = p.(*scheduler.Plugin)
		return p, err
	}
	return []kubescheduler.Option{
		kubescheduler.WithProfiles(configuration.(*config.KubeSchedulerConfiguration).Profiles...),
		kubescheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{scheduler.Name: factory}),
	}, nil
}

// errNoNode says that a pod fits nowhere.
var errNoNode = errors.New("no node takes the pod")

// choose returns the position of the best node for a pod, as kube-scheduler's scheduling cycle
// does. Nodes that do not fit for other reasons are left out.
func (c *cluster) choose(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, fits func(node int) (bool, error)) (int, error) {
	if _, status, _ := c.framework.RunPreFilterPlugins(ctx, state, pod); !status.IsSuccess() {
		return 0, status.AsError()
	}
	var nodes []fwk.NodeInfo
	var at []int
	for i, node := range c.nodes {
		status := c.framework.RunFilterPlugins(ctx, state, pod, node)
		if status.IsRejected() {
			continue
		}
		if !status.IsSuccess() {
			return 0, status.AsError()
		}
		switch ok, err := fits(i); {
		case err != nil:
			return 0, err
		case ok:
			nodes, at = append(nodes, node), append(at, i)
		}
	}
	if len(nodes) == 0 {
		return 0, errNoNode
	}
	if status := c.framework.RunPreScorePlugins(ctx, state, pod, nodes); !status.IsSuccess() {
		return 0, status.AsError()
	}
	scores, status := c.framework.RunScorePlugins(ctx, state, pod, nodes)
	if !status.IsSuccess() {
		return 0, status.AsError()
	}
	return at[c.best(scores)], nil
}

// best returns the position of the highest score, and of one of them at random if several are
// equal.
func (c *cluster) best(scores []fwk.NodePluginScores) int {
	best, equal := 0, 1
	for i := 1; i < len(scores); i++ {
		switch cmp.Compare(scores[i].TotalScore, scores[best].TotalScore) {
		case 1:
			best, equal = i, 1
		case 0:
			if equal++; c.rng.IntN(equal) == 0 {
				best = i
			}
		}
	}
	return best
}

// add puts a pod on a node.
func (c *cluster) add(pod *corev1.Pod, node int) {
	pod.Spec.NodeName, pod.ResourceVersion = c.nodes[node].Node().Name, "2"
	c.nodes[node].AddPod(pod)
}

func (c *cluster) remove(ctx context.Context, pod *corev1.Pod, node int) error {
	return c.nodes[node].RemovePod(klog.FromContext(ctx), pod)
}

// topologies answers a watch of NodeTopology objects with these events, like an API server.
type topologies []byte

// newTopologies returns the events for these objects.
func newTopologies(objects []*nodetopology.NodeTopology) (topologies, error) {
	var events bytes.Buffer
	encoder := json.NewEncoder(&events)
	for _, object := range objects {
		object.ResourceVersion = "1"
		if err := encoder.Encode(metav1.WatchEvent{Type: "ADDED", Object: runtime.RawExtension{Object: object}}); err != nil {
			return nil, err
		}
	}
	last := &nodetopology.NodeTopology{TypeMeta: objects[0].TypeMeta, ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1",
		Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	err := encoder.Encode(metav1.WatchEvent{Type: "BOOKMARK", Object: runtime.RawExtension{Object: last}})
	return events.Bytes(), err
}

// RoundTrip implements [http.RoundTripper].
func (t topologies) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := &http.Response{StatusCode: http.StatusNotFound, Request: r, Body: http.NoBody,
		Header: http.Header{"Content-Type": {"application/json"}}}
	if strings.HasSuffix(r.URL.Path, "/"+nodetopology.Resource) && r.URL.Query().Get("sendInitialEvents") == "true" {
		body, events := io.Pipe()
		answer.StatusCode, answer.Body = http.StatusOK, body
		go func() {
			_, err := events.Write(t)
			<-r.Context().Done()
			events.CloseWithError(err)
		}()
	}
	return answer, nil
}
