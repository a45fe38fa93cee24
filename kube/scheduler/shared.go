package scheduler

import (
	"context"
	"errors"
	"fmt"
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
)

// shared is what the plugins of all profiles of one scheduler have in common: they
// decide about the same nodes, so each must know what the others have reserved.
//
// The scheduler makes a plugin for every profile and has no place for what they
// share, except its informers. So shared is one: the informer of the topologies,
// which the scheduler's factory makes once, starts, and waits for.
type shared struct {
	topologies   *topologies
	reservations *reservations
	auditor      *auditor
	signing      *signing
	agents       *heartbeats
	waiting      *waitingPods
	// synced reports whether the first list of topologies has been handled.
	synced cache.InformerSynced
}

// sharingInformer is shared as the informer's factory keeps it.
type sharingInformer struct {
	cache.SharedIndexInformer
	shared
}

// makeClient returns a client for NodeResourceTopologies.
type makeClient func(*rest.Config) (versioned.Interface, error)

func newTopologyClient(config *rest.Config) (versioned.Interface, error) {
	config = rest.CopyConfig(config)
	// Custom resources have no protobuf form, which the scheduler's own
	// configuration asks for.
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	return versioned.NewForConfig(config)
}

// sharedOf returns what the plugins of this scheduler share.
func sharedOf(ctx context.Context, args Args, handle fwk.Handle, client makeClient) (*shared, error) {
	topologies, err := client(handle.KubeConfig())
	if err != nil {
		return nil, fmt.Errorf("make a client for NodeResourceTopologies: %w", err)
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
		return nil, errors.New("another plugin of this scheduler watches NodeResourceTopologies its own way; disable it")
	}
	if first { // the factory must not be used while it makes an informer
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
	return &s.shared, nil
}

// start makes what is shared and has the informers feed it.
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
	pods := handle.SharedInformerFactory().Core().V1().Pods().Informer()
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		DeleteFunc: onDeleted(func(pod *corev1.Pod) {
			s.reservations.drop(pod.UID)
			s.waiting.remove(pod.UID)
			s.signing.keys.Forget(pod)
		}),
	}); err != nil {
		return err
	}
	if err := s.agents.follow(ctx, handle.ClientSet()); err != nil {
		return err
	}
	if err := s.SetWatchErrorHandlerWithContext(explainWatchError); err != nil {
		return err
	}
	if err := s.SetTransform(s.topologies.transform); err != nil { // the factory has set its own
		return err
	}
	registration, err := s.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    s.setTopology,
		UpdateFunc: func(_, obj any) { s.setTopology(obj) },
		DeleteFunc: onDeleted(func(t *nodeTopology) {
			s.topologies.remove(t.Name)
			s.waiting.release() // pods that do not ask may run where no topology is known
		}),
	})
	if err != nil {
		return err
	}
	s.synced = registration.HasSynced
	return nil
}

func (s *sharingInformer) setTopology(obj any) {
	if t, ok := obj.(*nodeTopology); ok && s.topologies.set(t) {
		s.auditor.nodeChanged(t.Name)
		s.waiting.release()
	}
}

// agentChanged is called when a node's agent has fallen silent, or reports again.
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

// explainWatchError says what to do about the one failure that does not pass by
// itself.
func explainWatchError(ctx context.Context, r *cache.Reflector, err error) {
	if apierrors.IsNotFound(err) {
		klog.FromContext(ctx).Error(err, "The cluster has no NodeResourceTopology resource, so nothing is scheduled; "+
			"install its CustomResourceDefinition (deploy/manifests/noderesourcetopology-crd.yaml of Pinfold)")
		return
	}
	cache.DefaultWatchErrorHandler(ctx, r, err)
}

// onDeleted finds the object in what an informer hands over when it is gone.
func onDeleted[T any](do func(T)) func(obj any) {
	return func(obj any) {
		if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = last.Obj
		}
		if t, ok := obj.(T); ok {
			do(t)
		}
	}
}
