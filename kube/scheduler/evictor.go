package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/api"
)

const (
	// evictorTick is the interval of the checks for starving batch pods.
	evictorTick = 10 * time.Second
	// evictEvery is the least time between two evictions on a node.
	evictEvery = time.Minute
	// EventEvicted is about a batch pod that the scheduler evicts.
	EventEvicted = "BatchPodEvicted"
)

// evictor evicts batch pods from nodes on which they starve, so that they are placed elsewhere: the
// youngest first, because it loses the least work, and one a minute on each node. Nodes report
// starvation by a condition, which counts while their agents are not silent. The scheduler does this,
// because an agent with the right to evict pods could evict those of other nodes.
type evictor struct {
	handle  fwk.Handle
	nodes   corelisters.NodeLister
	pods    cache.Indexer // by nodeIndex
	silent  func(node string) bool
	leading func() bool
	now     func() time.Time
	last    map[string]time.Time // last eviction, by node
}

// newEvictor returns an evictor that acts while the scheduler leads.
func newEvictor(handle fwk.Handle, s *shared) *evictor {
	return &evictor{handle: handle, nodes: handle.SharedInformerFactory().Core().V1().Nodes().Lister(), pods: s.auditor.pods,
		leading: s.auditor.active.Load, now: time.Now, last: map[string]time.Time{},
		silent: func(node string) bool {
			t := s.topologies.get(node)
			return t == nil || !t.silent.IsZero()
		}}
}

// run evicts until the context ends.
func (e *evictor) run(ctx context.Context) {
	for sleep.For(ctx, evictorTick) {
		e.once(ctx)
	}
}

func (e *evictor) once(ctx context.Context) {
	if !e.leading() {
		return
	}
	nodes, err := e.nodes.List(labels.Everything())
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot look for nodes on which batch pods starve")
		return
	}
	before := e.last
	e.last = map[string]time.Time{}
	for _, node := range nodes {
		last, recently := before[node.Name]
		if recently = recently && e.now().Sub(last) < evictEvery; recently {
			e.last[node.Name] = last
		}
		if recently || !starves(node) || e.silent(node.Name) {
			continue
		}
		if e.evictOne(ctx, node.Name) {
			e.last[node.Name] = e.now()
		}
	}
}

// starves reports whether a node says that its batch pods starve.
func starves(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == api.BatchStarved && c.Status == corev1.ConditionTrue
	})
}

// evictOne evicts the youngest batch pod of a node that may be evicted, unless one is ending already.
// It reports whether it has evicted one.
func (e *evictor) evictOne(ctx context.Context, node string) bool {
	objects, err := e.pods.ByIndex(nodeIndex, node)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot look for batch pods", "node", node)
		return false
	}
	var batch []*corev1.Pod
	for _, object := range objects {
		pod, ok := object.(*corev1.Pod)
		if !ok || !evictable(pod) {
			continue
		}
		if pod.DeletionTimestamp != nil {
			return false
		}
		batch = append(batch, pod)
	}
	slices.SortFunc(batch, func(a, b *corev1.Pod) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	for _, pod := range batch {
		err := e.handle.ClientSet().PolicyV1().Evictions(pod.Namespace).Evict(ctx, &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}})
		switch {
		case err == nil:
			warn(e.handle, pod, EventEvicted, "Evicting", fmt.Sprintf("evicted, because batch pods starve on node %s, and this is the youngest", node))
			klog.FromContext(ctx).Info("Evicted a batch pod from a node on which they starve", "pod", klog.KObj(pod), "node", node)
			return true
		case apierrors.IsTooManyRequests(err), apierrors.IsNotFound(err), apierrors.IsConflict(err):
			// A PodDisruptionBudget protects it, or it has just ended.
		default:
			klog.FromContext(ctx).Error(err, "Cannot evict a batch pod; the scheduler needs the right to create pods/eviction", "pod", klog.KObj(pod))
			return false
		}
	}
	return false
}

// evictable reports whether a pod is a batch pod that is placed elsewhere if it is evicted. That of a
// DaemonSet is not, nor is a mirror pod.
func evictable(pod *corev1.Pod) bool {
	intent, err := api.Parse(pod)
	if err != nil || intent.Class != nodeplan.BE || pod.Status.QOSClass != corev1.PodQOSBestEffort {
		return false
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return false
	}
	owner := metav1.GetControllerOf(pod)
	return owner == nil || owner.Kind != "DaemonSet"
}
