package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/generated/clientset/versioned"
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/generated/informers/externalversions"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/scheduler/agents"
	"pinfold.dev/pinfold/kube/scheduler/audit"
	"pinfold.dev/pinfold/kube/scheduler/evict"
	"pinfold.dev/pinfold/kube/scheduler/informer"
	"pinfold.dev/pinfold/kube/scheduler/signing"
	"pinfold.dev/pinfold/kube/scheduler/waiting"
)

// shared is the state that the plugins of all profiles of one scheduler share. They decide about
// the same nodes, so each must know what the others have reserved.
//
// The framework creates one plugin per profile, and the plugins can share only its informers. So
// the state is attached to an informer, that of the topologies, which the informer factory creates
// once and starts.
type shared struct {
	reports      *agents.Reports
	reservations *reservations
	signer       *signing.Signer
	waiting      *waiting.Pods
	auditor      *audit.Auditor
	metrics      *metrics
	evicts       bool // batch pods
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
	legacy       func(*rest.Config) (versioned.Interface, error) // for the objects of the first version
	releaseDelay time.Duration                                   // of waiting pods
	auditDelay   time.Duration                                   // of audits of nodes
	syncTimeout  time.Duration                                   // of the first list of topologies
	now          func() time.Time
	register     func(...prometheus.Collector) // metrics
}

func newLegacyClient(config *rest.Config) (versioned.Interface, error) {
	config = rest.CopyConfig(config)
	// The scheduler's configuration asks for protobuf, which custom resources do not support.
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	return versioned.NewForConfig(config)
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
			return &sharingInformer{SharedIndexInformer: nodetopology.NewInformer(topologies), waited: make(chan struct{})}
		})
	s, ok := informer.(*sharingInformer)
	if !ok {
		return nil, errors.New("another plugin of this scheduler has its own informer of NodeTopologies; disable that plugin")
	}
	if first { // not in the function above: the factory is locked there
		if s.signer, err = signing.New(ctx, args.keyFiles()); err != nil {
			return nil, err
		}
		if err := s.start(ctx, args, handle, env); err != nil {
			return nil, fmt.Errorf("watch NodeTopologies: %w", err)
		}
	}
	if err := s.signer.Agrees(args.keyFiles()); err != nil {
		return nil, err
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
	s.reports, s.reservations = agents.New(args.AgentLeaseNamespace, args.AgentGracePeriod.Duration, env.now), newReservations()
	s.metrics = newMetrics(&s.shared, informers.Nodes().Lister())
	var err error
	if s.auditor, err = audit.New(ctx, handle, audit.Options{Reports: s.reports, Decided: s.reservations.matches, Keys: s.signer.Keys,
		MinShared: *args.MinSharedCPUs, Delay: env.auditDelay}); err != nil {
		return err
	}
	go s.reports.MarkSilent(ctx, handle.ClientSet(), informers.Nodes().Lister(), s.auditor.Active, func(text string) {
		klog.FromContext(ctx).Error(nil, text, "leases", args.AgentLeaseNamespace)
		where := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: args.AgentLeaseNamespace}}
		handle.EventRecorder().Eventf(where, nil, corev1.EventTypeWarning, agents.FleetSilentReason, "Observing", "%s", text)
	})
	if s.evicts = args.EvictBatchPods; s.evicts {
		go evict.New(handle, s.auditor.PodsOn, s.batchStarves, s.auditor.Active, time.Now).Run(ctx)
	}
	if _, err := informers.Pods().Informer().AddEventHandler(informer.Handlers(func(_, pod *corev1.Pod) {
		if pod.Spec.NodeName != "" { // another scheduler may have bound it
			s.waiting.Remove(pod.UID)
		}
	}, func(pod *corev1.Pod) {
		s.reservations.drop(pod.UID)
		s.waiting.Remove(pod.UID)
		s.signer.Keys.Forget(pod)
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
	if s.synced, err = s.follow(s.SharedIndexInformer, func(ctx context.Context, r *cache.Reflector, err error) {
		s.missing.Store(apierrors.IsNotFound(err))
		explainWatchError(ctx, r, err)
	}); err != nil {
		return err
	}
	legacy, err := s.followLegacy(ctx, handle, env)
	if err != nil {
		return err
	}
	env.register(s.metrics)
	go s.stopWaiting(ctx, env.syncTimeout, legacy)
	return nil
}

// follow keeps the reports as an informer says. It returns whether its first list has been handled.
func (s *shared) follow(topologies cache.SharedIndexInformer, failed cache.WatchErrorHandlerWithContext) (cache.InformerSynced, error) {
	if err := topologies.SetWatchErrorHandlerWithContext(failed); err != nil {
		return nil, err
	}
	if err := topologies.SetTransform(s.reports.Transform); err != nil { // replaces the factory's
		return nil, err
	}
	registration, err := topologies.AddEventHandler(informer.Handlers(
		func(before, report *agents.Report) {
			if s.reports.Set(report) {
				s.auditor.NodeChanged(report.Name)
				if !report.OnlyGave(before) {
					s.waiting.Release()
				}
			}
		},
		func(report *agents.Report) {
			if s.reports.Remove(report) {
				s.auditor.NodeChanged(report.Name)
				s.waiting.Release() // pods that do not ask may run on nodes without a topology
			}
		}))
	if err != nil {
		return nil, err
	}
	return registration.HasSynced, nil
}

// stopWaiting lets the scheduler start when the topologies are read, at the latest after a time. The
// pods that were refused until then because they were not read return to the queue afterwards: the
// handler of the first topologies releases them while the list does not count as read.
func (s *sharingInformer) stopWaiting(ctx context.Context, atMost time.Duration, legacy cache.InformerSynced) {
	first, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	cache.WaitForCacheSync(first.Done(), func() bool { return s.synced() || s.missing.Load() }, legacy)
	close(s.waited)
	if cache.WaitForCacheSync(ctx.Done(), s.synced) {
		s.waiting.Release()
	}
}

// followLegacy reads the objects of agents of the first version. It returns whether they have been
// listed, or cannot be: most clusters do not know their kind.
func (s *shared) followLegacy(ctx context.Context, handle fwk.Handle, env environment) (cache.InformerSynced, error) {
	client, err := env.legacy(handle.KubeConfig())
	if err != nil {
		return nil, fmt.Errorf("create a client for NodeResourceTopologies: %w", err)
	}
	var failed atomic.Bool
	objects := externalversions.NewSharedInformerFactory(client, 0).Topology().V1alpha2().NodeResourceTopologies().Informer()
	synced, err := s.follow(objects, func(ctx context.Context, _ *cache.Reflector, err error) {
		failed.Store(true)
		klog.FromContext(ctx).V(4).Info("Cannot watch NodeResourceTopologies of agents of the first version", "err", err)
	})
	if err != nil {
		return nil, err
	}
	go objects.RunWithContext(ctx)
	return func() bool { return synced() || failed.Load() }, nil
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

// explainWatchError logs what to do about a missing CustomResourceDefinition.
func explainWatchError(ctx context.Context, r *cache.Reflector, err error) {
	if apierrors.IsNotFound(err) {
		klog.FromContext(ctx).Error(nodetopology.ErrNoDefinition, "Pods that ask for CPUs are scheduled only to nodes with an agent of an earlier version")
		return
	}
	cache.DefaultWatchErrorHandler(ctx, r, err)
}
