package scheduler

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/scheduler/evict"
)

// EventsToRegister returns the events after which a pod that this plugin has refused may fit.
// [waitingPods] handles changes of topologies and agents.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, QueueingHintFn: oncePerEvent(afterPodLeft)},
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Update},
			PreQueueingHintFn: onlyWhenFreeing, QueueingHintFn: oncePerEvent(afterAssignedPodChanged)},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}, QueueingHintFn: afterOwnChange},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable | fwk.UpdateNodeCondition}, QueueingHintFn: afterNodeChanged},
	}, nil
}

// oncePerEvent computes a hint that does not depend on the waiting pod once for all of them: the
// pod of the event may be large, and many may wait.
func oncePerEvent(hint fwk.QueueingHintFn) fwk.QueueingHintFn {
	var mu sync.Mutex
	var before, after any
	var answer fwk.QueueingHint
	var known error
	return func(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
		mu.Lock()
		defer mu.Unlock()
		if before != oldObj || after != newObj || oldObj == nil && newObj == nil {
			answer, known = hint(logger, pod, oldObj, newObj)
			before, after = oldObj, newObj
		}
		return answer, known
	}
}

// hint turns a condition into the framework's answer. On error the pod is queued.
func hint(queue bool, err error) (fwk.QueueingHint, error) {
	if queue || err != nil {
		return fwk.Queue, err
	}
	return fwk.QueueSkip, nil
}

// afterPodLeft handles a pod that was deleted, ended or failed to be bound.
func afterPodLeft(_ klog.Logger, _ *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	gone, _, err := util.As[*corev1.Pod](oldObj, newObj)
	return hint(err == nil && (api.EffectiveRequest(gone) > 0 || asks(gone)), err)
}

// onlyWhenFreeing skips updates of bound pods that free no CPUs, once per event instead of once per
// waiting pod: most of them are status updates.
func onlyWhenFreeing(_ klog.Logger, oldObj, newObj any) (fwk.PreQueueingHintResult, error) {
	frees, err := freesCPUs(oldObj, newObj)
	return fwk.PreQueueingHintResult{AllPods: frees || err != nil}, err
}

// afterAssignedPodChanged handles a pod that was scaled down or whose entitlement to exclusive CPUs
// has changed.
func afterAssignedPodChanged(_ klog.Logger, _ *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	return hint(freesCPUs(oldObj, newObj))
}

func freesCPUs(oldObj, newObj any) (bool, error) {
	before, after, err := util.As[*corev1.Pod](oldObj, newObj)
	return err == nil && (api.EffectiveRequest(after) < api.EffectiveRequest(before) || !api.SameEntitlement(before, after)), err
}

// afterOwnChange handles an edit of the waiting pod's annotations, labels or spec.
func afterOwnChange(_ klog.Logger, _ *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := util.As[*corev1.Pod](oldObj, newObj)
	return hint(err == nil && (!maps.Equal(before.Annotations, after.Annotations) || !maps.Equal(before.Labels, after.Labels) ||
		!equality.Semantic.DeepEqual(before.Spec, after.Spec)), err)
}

// afterNodeChanged handles a new node, one with more CPU time to allocate, or one on which batch
// pods do not starve any more.
func afterNodeChanged(_ klog.Logger, _ *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := util.As[*corev1.Node](oldObj, newObj)
	return hint(err == nil && (before == nil || after.UID != before.UID || api.Reserved(after) < api.Reserved(before) ||
		evict.Starves(before) && !evict.Starves(after) ||
		after.Status.Allocatable.Cpu().Cmp(*before.Status.Allocatable.Cpu()) > 0), err)
}

// asks reports whether the pod asks for CPUs, possibly by invalid annotations.
func asks(pod *corev1.Pod) bool {
	intent, err := api.Parse(pod)
	return err != nil || intent.Asks()
}

// A release waits for releaseDelay, to collect the changes of many nodes. The delay doubles while
// releases follow each other, for example at the start of a large cluster or while an agent
// flaps, so that the scheduler does not try the same pods all the time. The maximum is that of the
// scheduling queue's own backoff.
const (
	releaseDelay    = 100 * time.Millisecond
	maxReleaseDelay = 10 * time.Second
)

// waitingPods holds the pods that this plugin has refused. They are tried again when a node's
// topology changes or its agent reports again. The framework has no event for agents, and for
// topologies it would list and watch all objects a second time.
type waitingPods struct {
	activate func(map[string]*corev1.Pod) // fwk.Handle's Activate; keys are namespace/name
	exists   func(*corev1.Pod) bool       // in the scheduler's list of pods
	delay    time.Duration                // before the first release

	// deciding is the pod of the current scheduling cycle. It is released as well, because it may
	// be refused on the basis of an outdated topology.
	deciding atomic.Pointer[corev1.Pod]

	mu      sync.Mutex
	refused map[types.UID]*corev1.Pod
	pending bool // a release
	next    time.Duration
	last    time.Time // of the latest release
}

func newWaitingPods(activate func(map[string]*corev1.Pod), exists func(*corev1.Pod) bool) *waitingPods {
	return &waitingPods{activate: activate, exists: exists, delay: releaseDelay, refused: map[types.UID]*corev1.Pod{}}
}

// add records a refused pod. A pod that was deleted during its scheduling cycle is not recorded:
// its call of remove came too early.
func (w *waitingPods) add(pod *corev1.Pod) {
	w.mu.Lock()
	w.refused[pod.UID] = pod
	w.mu.Unlock()
	if !w.exists(pod) {
		w.remove(pod.UID)
	}
}

// remove drops a pod that was deleted or has a node.
func (w *waitingPods) remove(pod types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.refused, pod)
}

// release returns all pods to the scheduling queue after a delay.
func (w *waitingPods) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending {
		return
	}
	w.pending = true
	if time.Since(w.last) > maxReleaseDelay {
		w.next = w.delay
	}
	time.AfterFunc(w.next, func() {
		if pods := w.take(); len(pods) > 0 {
			w.activate(pods)
		}
	})
	w.next = min(2*w.next, maxReleaseDelay)
}

func (w *waitingPods) take() map[string]*corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending, w.last = false, time.Now()
	pods := make(map[string]*corev1.Pod, len(w.refused)+1)
	for _, pod := range w.refused {
		pods[klog.KObj(pod).String()] = pod
	}
	clear(w.refused)
	if pod := w.deciding.Load(); pod != nil {
		pods[klog.KObj(pod).String()] = pod
	}
	return pods
}
