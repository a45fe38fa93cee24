// Package waiting keeps the pods that the plugin has refused, and returns them to the scheduling
// queue when a node's topology changes, its agent reports again, or pods have left. The framework has
// no event for agents, for topologies it would list and watch all objects a second time, and pods that
// leave would make it decide about each refused pod each time.
package waiting

import (
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// A release waits for Delay, to collect the changes of many nodes. The delay doubles while
// releases follow each other, for example at the start of a large cluster or while pods come and
// go, so that the scheduler does not try the same pods all the time. The maximum is that of the
// scheduling queue's own backoff.
const (
	Delay    = 100 * time.Millisecond
	maxDelay = 10 * time.Second
)

// again is when pods that were released and not tried since are released again, at first; the time
// doubles up to maxDelay. The queue does not take back a pod while the scheduler evicts others for it
// (DefaultPreemption.PreEnqueue), and leaves it to the plugins that have refused it to ask again.
const again = time.Second

// flushed is after what time the queue itself tries each pod again (DefaultPodMaxInUnschedulablePodsDuration).
const flushed = 5 * time.Minute

// Pods are the pods that wait.
type Pods struct {
	activate func(map[string]*corev1.Pod) // fwk.Handle's Activate; keys are namespace/name
	exists   func(*corev1.Pod) bool       // in the scheduler's list of pods
	delay    time.Duration                // before the first release

	// deciding is the pod of the current scheduling cycle. It is released as well, because it may
	// be refused on the basis of an outdated topology.
	deciding atomic.Pointer[corev1.Pod]

	mu      sync.Mutex
	refused map[types.UID]*refused
	pending bool // a release
	next    time.Duration
	last    time.Time // of the latest release
	repeats bool      // the latest release is repeated for pods that were not tried since
}

// refused is a pod that was refused.
type refused struct {
	pod      *corev1.Pod
	released time.Time // 0: not since it was refused
}

// New returns an empty list. The delay before the first release is usually [Delay].
func New(activate func(map[string]*corev1.Pod), exists func(*corev1.Pod) bool, delay time.Duration) *Pods {
	return &Pods{activate: activate, exists: exists, delay: delay, refused: map[types.UID]*refused{}}
}

// Decide records the pod of the current scheduling cycle.
func (w *Pods) Decide(pod *corev1.Pod) {
	w.deciding.Store(pod)
	if pod != nil {
		w.Remove(pod.UID)
	}
}

// Add records a refused pod. A pod that was deleted during its scheduling cycle is not recorded:
// its call of Remove came too early.
func (w *Pods) Add(pod *corev1.Pod) {
	w.mu.Lock()
	w.refused[pod.UID] = &refused{pod: pod}
	w.mu.Unlock()
	if !w.exists(pod) {
		w.Remove(pod.UID)
	}
}

// Remove drops a pod that was deleted, has a node, or is tried again.
func (w *Pods) Remove(pod types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.refused, pod)
}

// Count returns how many of the pods that wait are of a kind.
func (w *Pods) Count(kind func(*corev1.Pod) bool) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.refused {
		if kind(r.pod) {
			n++
		}
	}
	return n
}

// Release returns all pods to the scheduling queue after a delay.
func (w *Pods) Release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending {
		return
	}
	w.pending = true
	if time.Since(w.last) > maxDelay {
		w.next = w.delay
	}
	time.AfterFunc(w.next, func() {
		if pods := w.take(); len(pods) > 0 {
			w.activate(pods)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.repeats {
			w.repeat(again)
		}
	})
	w.next = min(2*w.next, maxDelay)
}

// Releases reports whether a release is due.
func (w *Pods) Releases() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pending
}

// take returns the pods to release.
func (w *Pods) take() map[string]*corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending, w.last = false, time.Now()
	pods := make(map[string]*corev1.Pod, len(w.refused)+1)
	for _, r := range w.refused {
		pods[klog.KObj(r.pod).String()], r.released = r.pod, w.last
	}
	if pod := w.deciding.Load(); pod != nil {
		pods[klog.KObj(pod).String()] = pod
	}
	return pods
}

// repeat releases pods again after a delay, while there are any that were released and not tried since. The
// caller holds mu.
func (w *Pods) repeat(delay time.Duration) {
	if w.repeats = len(w.untried()) > 0; !w.repeats {
		return
	}
	time.AfterFunc(delay, func() {
		w.mu.Lock()
		pods := w.untried()
		w.mu.Unlock()
		if len(pods) > 0 {
			w.activate(pods)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.repeat(min(2*delay, maxDelay))
	})
}

// untried returns the pods that were released and not tried since, but not those that the queue has tried. The
// caller holds mu.
func (w *Pods) untried() map[string]*corev1.Pod {
	pods := map[string]*corev1.Pod{}
	for _, r := range w.refused {
		if !r.released.IsZero() && time.Since(r.released) < flushed {
			pods[klog.KObj(r.pod).String()] = r.pod
		}
	}
	return pods
}
