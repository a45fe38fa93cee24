package simnode

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"pinfold.dev/pinfold/agent/control/allocate"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/nodetopology/apiclient"
	"pinfold.dev/pinfold/local/localcluster"
)

// podsByNode is the index of pods by their node.
const podsByNode = "node"

// publishers is how many nodes publish at the same time.
const publishers = 16

// RunAgents does for all simulated nodes of a cluster what their agents would, until ctx ends: it
// allocates CPUs to the pods that are bound to them, with the agent's own code, and publishes that.
func RunAgents(ctx context.Context, config *rest.Config) error {
	client, err := newClient(config)
	if err != nil {
		return err
	}
	topologies, err := apiclient.New(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	r := &running{topologies: topologies, published: apiclient.NewInformer(topologies), nodes: factory.Core().V1().Nodes().Informer(),
		pods: factory.Core().V1().Pods().Informer(), agents: map[string]*agent{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())}
	if err := r.follow(); err != nil {
		return fmt.Errorf("follow nodes and pods: %w", err)
	}
	factory.Start(ctx.Done())
	go r.published.RunWithContext(ctx)
	context.AfterFunc(ctx, r.queue.ShutDown)
	if !cache.WaitForCacheSync(ctx.Done(), r.nodes.HasSynced, r.pods.HasSynced, r.published.HasSynced) {
		return nil
	}
	var workers sync.WaitGroup
	for range publishers {
		workers.Go(func() { r.work(ctx) })
	}
	workers.Wait()
	return nil
}

// running is the agents of a cluster.
type running struct {
	topologies             nodetopology.Client
	published, nodes, pods cache.SharedIndexInformer
	queue                  workqueue.TypedRateLimitingInterface[string] // names of nodes

	mu     sync.Mutex
	agents map[string]*agent // by node; each is used by one worker at a time
}

// follow queues the node of everything that changes.
func (r *running) follow() error {
	err := r.pods.AddIndexers(cache.Indexers{podsByNode: func(obj any) ([]string, error) {
		if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
			return []string{pod.Spec.NodeName}, nil
		}
		return nil, nil
	}})
	if err != nil {
		return err
	}
	node := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		switch o := obj.(type) {
		case *corev1.Pod:
			if o.Spec.NodeName != "" {
				r.queue.Add(o.Spec.NodeName)
			}
		case metav1.Object:
			r.queue.Add(o.GetName())
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: node, UpdateFunc: func(_, now any) { node(now) }, DeleteFunc: node}
	for _, informer := range []cache.SharedIndexInformer{r.pods, r.nodes, r.published} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	return nil
}

func (r *running) work(ctx context.Context) {
	for {
		name, ended := r.queue.Get()
		if ended {
			return
		}
		err := r.node(ctx, name)
		if err != nil && !apierrors.IsConflict(err) {
			klog.FromContext(ctx).Error(err, "Cannot publish what a simulated node has allocated", "node", name)
		}
		if err == nil {
			r.queue.Forget(name)
		} else {
			r.queue.AddRateLimited(name)
		}
		r.queue.Done(name)
	}
}

// node allocates on one node, and publishes that.
func (r *running) node(ctx context.Context, name string) error {
	node, _, err := r.nodes.GetStore().GetByKey(name)
	if err != nil {
		return err
	}
	published, _, err := r.published.GetStore().GetByKey(name)
	if err != nil {
		return err
	}
	object, isNode := node.(*corev1.Node)
	have, isPublished := published.(*nodetopology.NodeTopology)
	if !isNode || !isPublished || object.Annotations[localcluster.SimulatedAnnotation] != localcluster.SimulatedValue {
		return nil
	}
	a, err := r.agentOf(object, have)
	if err != nil || a == nil {
		return err
	}
	bound, err := r.pods.GetIndexer().ByIndex(podsByNode, name)
	if err != nil {
		return err
	}
	objects := make([]*corev1.Pod, 0, len(bound))
	for _, obj := range bound {
		if pod, ok := obj.(*corev1.Pod); ok {
			objects = append(objects, pod)
		}
	}
	want, err := a.allocate(objects, object)
	if err != nil || nodetopology.Equal(have, want) {
		return err
	}
	want.ResourceVersion = have.ResourceVersion
	_, err = r.topologies.Update(ctx, want, metav1.UpdateOptions{})
	return err
}

// agentOf returns the agent of a node, which begins with what an earlier one has published, or nil if its
// object is not usable.
func (r *running) agentOf(node *corev1.Node, have *nodetopology.NodeTopology) (*agent, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.agents[node.Name]
	if a != nil && a.uid == node.UID {
		return a, nil
	}
	machine, state, err := nodetopology.ToMachine(have)
	if err != nil || nodetopology.NodeUID(have) != node.UID {
		return nil, err // none if the object is about an earlier node
	}
	a = &agent{name: node.Name, uid: node.UID, state: state, index: placement.NewIndex(machine),
		controller: allocate.New(node.Name, allocate.RepackNone, api.Ceilings{})}
	a.controller.Resume(state.Allocations, nil)
	r.agents[node.Name] = a
	return a, nil
}

// agent is the agent of a simulated node.
type agent struct {
	name       string
	uid        types.UID
	state      nodetopology.State
	index      *placement.Index
	controller *allocate.Controller
}

// allocate allocates CPUs to the pods of the node, and returns what to publish.
func (a *agent) allocate(objects []*corev1.Pod, node *corev1.Node) (*nodetopology.NodeTopology, error) {
	books := ledger.Config{Reserved: a.state.Reserved(node), ReservedCPUs: a.state.ReservedCPUs, MinShared: api.DefaultMinSharedCPUs}
	state := a.state
	state.Allocations = a.controller.Simulate(time.Now(), objects, a.index, books)
	object, err := nodetopology.FromMachine(a.name, a.index.Machine(), state)
	if err != nil {
		return nil, err
	}
	nodetopology.OwnedByNode(object, a.uid)
	return object, nil
}
