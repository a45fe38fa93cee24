// Package evict evicts batch pods from nodes on which they starve:
//
//	go evict.New(handle, starving, leading, time.Now).Run(ctx)
package evict

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/api"
)

const (
	// evictorTick is the interval of the checks for starving batch pods.
	evictorTick = 10 * time.Second
	// evictEvery is the least time between two evictions on a node. It doubles, up to
	// mostEvictEvery, while batch pods come to the node between evictions.
	evictEvery     = time.Minute
	mostEvictEvery = time.Hour
	// Event is the reason of the event about a batch pod that the scheduler evicts.
	Event = "BatchPodEvicted"
)

// Evictor evicts batch pods from nodes on which they starve, so that they are placed elsewhere: the
// youngest first, because it loses the least work, and one a minute on each node. Nodes report
// starvation by a condition, which counts while their agents are not silent. The scheduler does
// this, because an agent with the right to evict pods could evict those of other nodes.
//
// Filter places no batch pod on such a node. Another scheduler may, or the condition may come and
// go. Evictions then have no lasting effect, so they become rarer.
type Evictor struct {
	handle   fwk.Handle
	nodes    corelisters.NodeLister
	podsOn   func(node string) ([]*corev1.Pod, error)
	starving func(*corev1.Node) bool
	leading  func() bool
	now      func() time.Time
	past     map[string]eviction // the last one, by node
}

// eviction is an eviction on a node.
type eviction struct {
	at    time.Time
	pause time.Duration      // until the next one
	seen  map[types.UID]bool // the batch pods of the node at that time
}

// New returns an evictor that acts while the scheduler leads, on nodes on which batch pods starve.
// podsOn returns the pods of a node.
func New(handle fwk.Handle, podsOn func(node string) ([]*corev1.Pod, error), starving func(*corev1.Node) bool, leading func() bool, now func() time.Time) *Evictor {
	return &Evictor{handle: handle, nodes: handle.SharedInformerFactory().Core().V1().Nodes().Lister(), podsOn: podsOn,
		starving: starving, leading: leading, now: now, past: map[string]eviction{}}
}

// Run evicts until the context ends.
func (e *Evictor) Run(ctx context.Context) {
	for sleep.For(ctx, evictorTick) {
		e.Once(ctx)
	}
}

// Once evicts at most one pod from each node.
func (e *Evictor) Once(ctx context.Context) {
	if !e.leading() {
		return
	}
	nodes, err := e.nodes.List(labels.Everything())
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot look for nodes on which batch pods starve")
		return
	}
	now, before := e.now(), e.past
	e.past = map[string]eviction{}
	for _, node := range nodes {
		last, ok := before[node.Name]
		passed := now.Sub(last.at)
		if ok && passed < last.pause+mostEvictEvery {
			e.past[node.Name] = last
		}
		if ok && passed < last.pause || !e.starving(node) {
			continue
		}
		batch := e.batchOn(ctx, node.Name)
		if e.evictOne(ctx, node.Name, batch) {
			e.past[node.Name] = e.past[node.Name].next(now, batch)
		}
	}
}

// next returns the eviction that follows e, of one of these pods. It is the first one if e is the
// zero value.
func (e eviction) next(now time.Time, batch []*corev1.Pod) eviction {
	n := eviction{at: now, pause: evictEvery, seen: make(map[types.UID]bool, len(batch))}
	for _, pod := range batch {
		n.seen[pod.UID] = true
		if e.seen != nil && !e.seen[pod.UID] {
			n.pause = min(2*e.pause, mostEvictEvery)
		}
	}
	return n
}

// Starves reports whether a node says that its batch pods starve.
func Starves(node *corev1.Node) bool {
	return api.Condition(node, api.BatchStarved).Status == corev1.ConditionTrue
}

// batchOn returns the batch pods of a node that have not ended and may be evicted, the youngest
// first.
func (e *Evictor) batchOn(ctx context.Context, node string) (batch []*corev1.Pod) {
	pods, err := e.podsOn(node)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Cannot look for batch pods", "node", node)
		return nil
	}
	for _, pod := range pods {
		if api.HasEnded(pod) {
			continue
		}
		if intent, err := api.Parse(pod); err == nil && Evictable(pod, intent.Class) {
			batch = append(batch, pod)
		}
	}
	slices.SortFunc(batch, func(a, b *corev1.Pod) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	return batch
}

// evictOne evicts the first of a node's batch pods that may be evicted, unless one is ending
// already. It reports whether it has evicted one.
func (e *Evictor) evictOne(ctx context.Context, node string, batch []*corev1.Pod) bool {
	if slices.ContainsFunc(batch, func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }) {
		return false
	}
	for _, pod := range batch {
		err := e.handle.ClientSet().PolicyV1().Evictions(pod.Namespace).Evict(ctx, &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}})
		switch {
		case err == nil:
			e.handle.EventRecorder().Eventf(pod, nil, corev1.EventTypeWarning, Event, "Evicting",
				"evicted, because batch pods starve on node %s, and this is the youngest that may be evicted", node)
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

// Evictable reports whether a pod of a class is a batch pod that is placed elsewhere if it is
// evicted. That of a DaemonSet is not, nor is a mirror pod.
func Evictable(pod *corev1.Pod, class qos.Class) bool {
	if class != qos.BE || pod.Status.QOSClass != corev1.PodQOSBestEffort {
		return false
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return false
	}
	owner := metav1.GetControllerOf(pod)
	return owner == nil || owner.Kind != "DaemonSet"
}
