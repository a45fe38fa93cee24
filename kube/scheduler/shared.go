package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/nodetopology/apiclient"
	"pinfold.dev/pinfold/kube/scheduler/agents"
	"pinfold.dev/pinfold/kube/scheduler/evict"
	"pinfold.dev/pinfold/kube/scheduler/waiting"
)

// shared is the state that the plugins of all profiles of one scheduler share. They decide about
// the same nodes.
//
// The framework creates one plugin per profile, and the plugins can share only its informers. So
// the state is attached to an informer, that of the topologies, which the informer factory creates
// once and starts.
type shared struct {
	reports *agents.Reports
	waiting *waiting.Pods
	pods    cache.Indexer // the informer's
	evicts  bool          // batch pods
	// leads is set once this replica has begun to schedule. All replicas follow the cluster, but only
	// the leader changes nodes and evicts pods.
	leads atomic.Bool
	// published are told when the agent of a node has published what it has allocated.
	published followers
	// predicted are the UIDs of pods that were given a node, of whose CPUs its agent has not published anything.
	predicted sync.Map
	// synced reports whether the first list of topologies has been handled, and missing that the
	// cluster does not know their kind.
	synced  cache.InformerSynced
	missing atomic.Bool
}

// sharingInformer is the informer to which the shared state is attached. The scheduler waits for
// the informers of its factory before it schedules anything. For this one it waits as long as the
// API server may need to answer, and no longer: pods that do not ask can do without topologies, and
// the definition of their kind can be missing.
type sharingInformer struct {
	cache.SharedIndexInformer
	shared
	waited chan struct{} // closed when the scheduler need not wait any more
}

// HasSynced implements [cache.SharedInformer].
func (s *sharingInformer) HasSynced() bool { return cache.IsDone(s.HasSyncedChecker()) }

// HasSyncedChecker implements [cache.SharedInformer].
func (s *sharingInformer) HasSyncedChecker() cache.DoneChecker { return waitedFor{s.waited} }

type waitedFor struct{ done <-chan struct{} }

// Name implements [cache.DoneChecker].
func (waitedFor) Name() string { return "SharedIndexInformer " + nodetopology.Kind }

// Done implements [cache.DoneChecker].
func (w waitedFor) Done() <-chan struct{} { return w.done }

// environment is what the plugin takes from outside of the framework.
type environment struct {
	topologies   func(*rest.Config) (nodetopology.Client, error) // creates a client
	releaseDelay time.Duration                                   // of waiting pods
	syncTimeout  time.Duration                                   // of the first list of topologies
	now          func() time.Time
}

// sharedOf returns the state that the plugins of this scheduler share. The first call creates it.
func sharedOf(ctx context.Context, args Args, handle fwk.Handle, env environment) (*shared, error) {
	topologies, err := env.topologies(handle.KubeConfig())
	if err != nil {
		return nil, fmt.Errorf("create a client for NodeTopologies: %w", err)
	}
	first := false
	informer := handle.SharedInformerFactory().InformerFor(&nodetopology.NodeTopology{},
		func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			first = true
			return &sharingInformer{SharedIndexInformer: apiclient.NewInformer(topologies), waited: make(chan struct{})}
		})
	s, ok := informer.(*sharingInformer)
	if !ok {
		return nil, errors.New("another plugin of this scheduler has its own informer of NodeTopologies; disable that plugin")
	}
	if first { // not in the function above: the factory is locked there
		if err := s.start(ctx, args, handle, env); err != nil {
			return nil, fmt.Errorf("watch NodeTopologies: %w", err)
		}
	}
	if args.EvictBatchPods != s.evicts {
		return nil, errors.New("evictBatchPods differs from that of another profile: all profiles need the same")
	}
	return &s.shared, nil
}

// start creates the shared state and registers it with the informers.
func (s *sharingInformer) start(ctx context.Context, args Args, handle fwk.Handle, env environment) error {
	informers := handle.SharedInformerFactory().Core().V1()
	s.waiting = waiting.New(
		func(pods map[string]*corev1.Pod) { handle.Activate(klog.FromContext(ctx), pods) },
		func(pod *corev1.Pod) bool {
			known, err := informers.Pods().Lister().Pods(pod.Namespace).Get(pod.Name)
			return err == nil && known.UID == pod.UID
		}, env.releaseDelay)
	allWaiting.Store(s.waiting)
	registerMetrics()
	s.reports = agents.New(args.AgentLeaseNamespace, args.AgentGracePeriod.Duration, env.now)
	pods := informers.Pods().Informer()
	go s.reports.MarkSilent(ctx, handle.ClientSet(), informers.Nodes().Lister(), s.leads.Load)
	if err := pods.AddIndexers(cache.Indexers{nodeIndex: nodeOf}); err != nil {
		return fmt.Errorf("index pods by node: %w", err)
	}
	s.pods = pods.GetIndexer()
	if s.evicts = args.EvictBatchPods; s.evicts {
		go evict.New(handle, s.podsOn, s.batchStarves, s.leads.Load, time.Now).Run(ctx)
	}
	if _, err := pods.AddEventHandler(informerHandlers(nil, func(pod *corev1.Pod) {
		s.waiting.Remove(pod.UID)
		s.predicted.Delete(pod.UID)
	})); err != nil {
		return err
	}
	if err := s.reports.FollowLeases(ctx, handle.ClientSet(), func(report *agents.Report) {
		if report.Silent.IsZero() {
			s.waiting.Release()
		}
	}); err != nil {
		return err
	}
	if err := s.followReports(); err != nil {
		return err
	}
	go s.stopWaiting(ctx, env.syncTimeout)
	return nil
}

// followReports keeps the reports as the informer says.
func (s *sharingInformer) followReports() error {
	if err := s.SetWatchErrorHandlerWithContext(s.watchFailed); err != nil {
		return err
	}
	if err := s.SetTransform(s.reports.Transform); err != nil { // replaces the factory's
		return err
	}
	registration, err := s.AddEventHandler(informerHandlers(
		func(_, report *agents.Report) { s.received(report) },
		func(report *agents.Report) {
			if s.reports.Remove(report) {
				s.waiting.Release() // pods that do not ask may run on nodes without a topology
			}
		}))
	if err != nil {
		return err
	}
	s.synced = registration.HasSynced
	return nil
}

// received keeps what a node reports.
func (s *shared) received(report *agents.Report) {
	for pod := range report.Allocations() {
		s.answered(pod, "kept")
	}
	for _, pod := range report.NotAllocated {
		s.answered(pod, "failed")
	}
	before := s.reports.Named(report.Name)
	switch {
	case !s.reports.Set(report):
	case report.OnlyAllocated(before):
		if s.published.tell(report.Name); report.Reallocates(before) {
			s.waiting.Release()
		}
	default:
		s.waiting.Release()
	}
}

func (s *shared) answered(pod types.UID, result string) {
	if _, open := s.predicted.LoadAndDelete(pod); open {
		predictions.WithLabelValues(result).Inc()
	}
}

// stopWaiting lets the scheduler start when the topologies are read, at the latest after a time. The
// pods that were refused until then because they were not read return to the queue afterwards: the
// handler of the first topologies releases them while the list does not count as read.
func (s *sharingInformer) stopWaiting(ctx context.Context, atMost time.Duration) {
	first, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	cache.WaitForCacheSync(first.Done(), func() bool { return s.synced() || s.missing.Load() })
	close(s.waited)
	if cache.WaitForCacheSync(ctx.Done(), s.synced) {
		s.waiting.Release()
	}
}

// followers are functions that get the name of a node.
type followers struct {
	mu  sync.Mutex
	all []func(node string)
}

func (f *followers) tell(node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, follower := range f.all {
		follower(node)
	}
}

// follow has a plugin told when the agent of a node has published what it has allocated.
func (s *shared) follow(published func(node string)) {
	s.published.mu.Lock()
	defer s.published.mu.Unlock()
	s.published.all = append(s.published.all, published)
}

// nodeIndex is an index of the scheduler's informer: pods by node.
const nodeIndex = "pinfold.dev/node"

func nodeOf(obj any) ([]string, error) {
	if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
		return []string{pod.Spec.NodeName}, nil
	}
	return nil, nil
}

// podsOn returns the pods of a node, in any order.
func (s *shared) podsOn(node string) (pods []*corev1.Pod, err error) {
	objects, err := s.pods.ByIndex(nodeIndex, node)
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods, err
}

// batchStarves reports whether batch pods starve on a node according to its agent, which is not
// silent.
func (s *shared) batchStarves(node *corev1.Node) bool {
	if !evict.Starves(node) {
		return false
	}
	t := s.reports.Of(node)
	return t != nil && t.Silent.IsZero()
}

// watchFailed notes whether the CustomResourceDefinition is missing, and logs what to do about that.
func (s *sharingInformer) watchFailed(ctx context.Context, r *cache.Reflector, err error) {
	s.missing.Store(apierrors.IsNotFound(err))
	if apierrors.IsNotFound(err) {
		klog.FromContext(ctx).Error(nodetopology.ErrNoDefinition, "Pods that ask for CPUs are not scheduled")
		return
	}
	cache.DefaultWatchErrorHandler(ctx, r, err)
}
