package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/generated/clientset/versioned"
	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/generated/informers/externalversions"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/kube/scheduler/evict"
)

// shared is the state that the plugins of all profiles of one scheduler share. They decide about
// the same nodes, so each must know what the others have reserved.
//
// The framework creates one plugin per profile, and the plugins can share only its informers. So
// the state is attached to an informer, that of the topologies, which the informer factory creates
// once, starts and waits for.
type shared struct {
	topologies   *topologies
	reservations *reservations
	auditor      *auditor
	signing      *signing
	agents       *heartbeats
	waiting      *waitingPods
	evicts       bool // batch pods
	// synced reports whether the first list of topologies has been handled.
	synced cache.InformerSynced
	// caughtUp is true once catchUp has returned nil.
	caughtUp atomic.Bool
}

// sharingInformer is the informer to which the shared state is attached.
type sharingInformer struct {
	cache.SharedIndexInformer
	shared
}

// makeClient creates a client for NodeResourceTopologies.
type makeClient func(*rest.Config) (versioned.Interface, error)

func newTopologyClient(config *rest.Config) (versioned.Interface, error) {
	config = rest.CopyConfig(config)
	// The scheduler's configuration asks for protobuf, which custom resources do not support.
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	return versioned.NewForConfig(config)
}

// sharedOf returns the state that the plugins of this scheduler share. The first call creates it.
func sharedOf(ctx context.Context, args Args, handle fwk.Handle, client makeClient) (*shared, error) {
	topologies, err := client(handle.KubeConfig())
	if err != nil {
		return nil, fmt.Errorf("create a client for NodeResourceTopologies: %w", err)
	}
	first := false
	informer := handle.SharedInformerFactory().InformerFor(&v1alpha2.NodeResourceTopology{},
		func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
			first = true
			return &sharingInformer{SharedIndexInformer: externalversions.NewSharedInformerFactory(topologies, 0).
				Topology().V1alpha2().NodeResourceTopologies().Informer()}
		})
	s, ok := informer.(*sharingInformer)
	if !ok {
		return nil, errors.New("another plugin of this scheduler has its own informer of NodeResourceTopologies; disable that plugin")
	}
	if first { // not in the function above: the factory is locked there
		if s.signing, err = newSigning(ctx, args); err != nil {
			return nil, err
		}
		if err := s.start(ctx, args, handle); err != nil {
			return nil, fmt.Errorf("watch NodeResourceTopologies: %w", err)
		}
	}
	if err := s.signing.agrees(args); err != nil {
		return nil, err
	}
	if args.EvictBatchPods != s.evicts {
		return nil, errors.New("evictBatchPods differs from that of another profile: all profiles need the same")
	}
	return &s.shared, nil
}

// start creates the shared state and registers it with the informers.
func (s *sharingInformer) start(ctx context.Context, args Args, handle fwk.Handle) (err error) {
	lister := handle.SharedInformerFactory().Core().V1().Pods().Lister()
	s.waiting = newWaitingPods(
		func(pods map[string]*corev1.Pod) { handle.Activate(klog.FromContext(ctx), pods) },
		func(pod *corev1.Pod) bool {
			known, err := lister.Pods(pod.Namespace).Get(pod.Name)
			return err == nil && known.UID == pod.UID
		})
	s.agents = newHeartbeats(args.AgentLeaseNamespace, args.AgentGracePeriod.Duration)
	s.agents.changed = s.agentChanged
	s.topologies, s.reservations = newTopologies(s.agents), newReservations()
	if s.auditor, err = newAuditor(ctx, handle, s.topologies, s.reservations, *args.MinSharedCPUs, s.signing.keys); err != nil {
		return err
	}
	if s.evicts = args.EvictBatchPods; s.evicts {
		go evict.New(handle, s.auditor.podsOn, s.batchStarves, s.auditor.active.Load, time.Now).Run(ctx)
	}
	pods := handle.SharedInformerFactory().Core().V1().Pods().Informer()
	if _, err := pods.AddEventHandler(onEvents(nil, func(pod *corev1.Pod) {
		s.reservations.drop(pod.UID)
		s.waiting.remove(pod.UID)
		s.signing.keys.Forget(pod)
	})); err != nil {
		return err
	}
	if err := s.agents.follow(ctx, handle.ClientSet()); err != nil {
		return err
	}
	if err := s.SetWatchErrorHandlerWithContext(explainWatchError); err != nil {
		return err
	}
	if err := s.SetTransform(s.topologies.transform); err != nil { // replaces the factory's
		return err
	}
	registration, err := s.AddEventHandler(onEvents(
		func(_, t *nodeTopology) {
			if s.topologies.set(t) {
				s.auditor.nodeChanged(t.Name)
				s.waiting.release()
			}
		},
		func(t *nodeTopology) {
			s.topologies.remove(t.Name)
			s.waiting.release() // pods that do not ask may run on nodes without a topology
		}))
	if err != nil {
		return err
	}
	s.synced = registration.HasSynced
	return nil
}

// agentChanged handles a node's agent that has become silent or reports again.
func (s *shared) agentChanged(node string) {
	now, changed := s.topologies.judgeAgent(node)
	if !changed {
		return
	}
	s.auditor.nodeChanged(node)
	if now.silent.IsZero() {
		s.waiting.release()
	}
}

// batchStarves reports whether batch pods starve on a node according to its agent, which is not
// silent.
func (s *shared) batchStarves(node *corev1.Node) bool {
	if !evict.Starves(node) {
		return false
	}
	t := s.topologies.of(node)
	return t != nil && t.silent.IsZero()
}

// explainWatchError logs what to do about a missing CustomResourceDefinition.
func explainWatchError(ctx context.Context, r *cache.Reflector, err error) {
	if apierrors.IsNotFound(err) {
		klog.FromContext(ctx).Error(err, "The cluster has no NodeResourceTopology resource, so nothing is scheduled; "+
			"install its CustomResourceDefinition (deploy/chart/crds/noderesourcetopology.yaml of Pinfold)")
		return
	}
	cache.DefaultWatchErrorHandler(ctx, r, err)
}

// onEvents returns handlers for an informer's events about objects of type T. changed is called
// with a new object, and then before is nil, or with two versions of an object. Either function may
// be nil.
func onEvents[T any](changed func(before, now *T), deleted func(*T)) (handlers cache.ResourceEventHandlerFuncs) {
	if changed != nil {
		handlers.UpdateFunc = func(oldObj, newObj any) {
			before, _ := oldObj.(*T)
			if now, ok := newObj.(*T); ok {
				changed(before, now)
			}
		}
		handlers.AddFunc = func(obj any) { handlers.UpdateFunc(nil, obj) }
	}
	if deleted != nil {
		handlers.DeleteFunc = func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			if object, ok := obj.(*T); ok {
				deleted(object)
			}
		}
	}
	return handlers
}
