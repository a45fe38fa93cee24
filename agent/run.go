package agent

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"pinfold.dev/pinfold/agent/control"
)

// Run is the agent, until the context ends. It returns an error when it cannot begin.
func Run(ctx context.Context, o Options) error {
	o = o.withDefaults()
	release, err := lock(o.RunDir)
	if err != nil {
		return err
	}
	defer release()
	k, err := openKernel(o.Root)
	if err != nil {
		return fmt.Errorf("find the control groups: %w", err)
	}
	defer k.groups.Close()
	e := newEngine(o, k)
	srv, err := newServer(o, e)
	if err != nil {
		return err
	}
	if last := lastKubelet(o.RunDir); last != nil {
		e.setKubelet(*last)
	}
	stopEvents := e.showEvents(o.Client, o.NodeName)
	defer stopEvents()
	p := &publisher{node: o.NodeName, client: o.Client, topologies: o.Topologies, kubelet: o.Kubelet, staticPods: o.StaticPods, runDir: o.RunDir,
		engine: e, log: o.Log, dedup: newLogDedup(o.Now), now: o.Now, every: o.APIEvery, retry: o.RetryAfter, changed: make(chan struct{}, 1)}
	e.report = func(r control.Report) { p.conditionIs(r.Condition) }
	e.askKubelet = p.soon
	if err := e.watchPods(ctx, o.Client, o.NodeName); err != nil {
		return err
	}
	o.Log.Info("the agent runs", "node", o.NodeName, "root", o.Root, "metrics", srv.address())

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return srv.serve(ctx) })
	group.Go(func() error { p.loop(ctx); return nil })
	if o.LeaseNamespace != "" {
		h := &heartbeat{client: o.Client, namespace: o.LeaseNamespace, name: o.NodeName, node: &p.uid, worked: &e.worked, now: o.Now,
			log: o.Log, dedup: newLogDedup(o.Now),
			every: o.LeaseEvery, retry: o.RetryAfter, recent: 2 * o.Period, resumed: p.soon}
		group.Go(func() error { h.loop(ctx); return nil })
	}
	group.Go(func() error { e.sampleLoop(ctx, o.SampleEvery); return nil })
	if o.SampleInterval > 0 {
		group.Go(func() error { e.sampleContainers(ctx, o.SampleInterval, o.RetryAfter); return nil })
		group.Go(func() error { e.tickLoop(ctx); return nil })
	}
	group.Go(func() error { e.loop(ctx, o.Period, o.MinInterval, srv.observe); return nil })
	group.Go(func() error { e.serveRuntime(ctx, o); return nil })
	group.Go(func() error { e.keepWeight(ctx, o.Period); return nil })
	group.Go(func() error { e.watchGroups(ctx, o.Period, o.RetryAfter); return nil })
	err = group.Wait()
	o.Log.Info("the agent ends; what it has set stays in force")
	return err
}

func (s *server) address() string {
	if s.listener == nil {
		return "not served"
	}
	return s.listener.Addr().String()
}

// watchPods keeps the pods of the node known. It does not wait for them: the API
// server may be down.
func (e *engine) watchPods(ctx context.Context, client kubernetes.Interface, node string) error {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTransform(forget),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", node).String()
		}))
	pods := factory.Core().V1().Pods()
	informer := pods.Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { e.poke() },
		UpdateFunc: func(before, after any) {
			if e.changed(before, after) {
				e.poke()
			}
		},
		DeleteFunc: func(any) { e.poke() },
	}); err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	if err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		e.dedup.warn(e.log, "pods", "the pods of this node cannot be watched; those known last count", err)
	}); err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	lister := pods.Lister()
	e.mu.Lock()
	e.pods = func() []*corev1.Pod { return list(informer, lister) }
	e.mu.Unlock()
	factory.Start(ctx.Done())
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			e.poke()
		}
	}()
	return nil
}

// changed reports whether an update of a pod makes a difference to its control groups:
// most, of conditions and times, do not.
func (e *engine) changed(before, after any) bool {
	a, ok := before.(*corev1.Pod)
	b, also := after.(*corev1.Pod)
	return !ok || !also || !e.control.Alike(a, b)
}

// list returns the pods, nil while they are not known.
func list(informer cache.SharedIndexInformer, lister listers.PodLister) []*corev1.Pod {
	if !informer.HasSynced() {
		return nil
	}
	pods, err := lister.List(labels.Everything())
	if err != nil { // an index in memory knows no errors
		return nil
	}
	if pods == nil {
		pods = []*corev1.Pod{}
	}
	return sortPods(pods)
}

// forget drops what the agent does not look at and what takes much room.
func forget(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields = nil
		pod.Spec.Volumes = nil
	}
	return object, nil
}

// showEvents makes notices events of the pods and the node they are about.
func (e *engine) showEvents(client kubernetes.Interface, node string) (stop func()) {
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "pinfold-agent", Host: node})
	e.events = func(n control.Notice) {
		if n.Pod != nil {
			recorder.Event(n.Pod, corev1.EventTypeWarning, n.Reason, n.Message)
			return
		}
		recorder.Event(nodeReference(node), corev1.EventTypeWarning, n.Reason, n.Message)
	}
	return broadcaster.Shutdown
}

// KubeletAddress is where the kubelet of a node serves, as the Node object says.
func KubeletAddress(ctx context.Context, client kubernetes.Interface, name string) (host string, port int, err error) {
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", 0, fmt.Errorf("find the kubelet: get node %s: %w", name, err)
	}
	port = int(node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP && net.ParseIP(address.Address) != nil && port != 0 {
			return address.Address, port, nil
		}
	}
	return "", 0, fmt.Errorf("find the kubelet: node %s has no internal IP address and kubelet port (%s): is its kubelet running?", name, strconv.Itoa(port))
}
