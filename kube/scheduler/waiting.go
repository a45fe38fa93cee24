package scheduler

import (
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// A release waits for releaseDelay, to collect the changes of many nodes. The delay doubles
// while releases follow each other, as at the start of a large cluster or where an agent
// flaps, so that the scheduler does not try the same pods all the time. The maximum is that
// of the scheduling queue's own backoff.
const (
	releaseDelay    = 100 * time.Millisecond
	maxReleaseDelay = 10 * time.Second
)

// waitingPods are the pods that this plugin has refused. They are tried again when a node's
// topology changes, or its agent reports again: the framework has no event for the one, and
// would list and watch all topologies a second time for the other.
type waitingPods struct {
	activate func(map[string]*corev1.Pod) // by namespace and name; as fwk.Handle's Activate
	delay    time.Duration                // before the first release

	// deciding is the pod of the current scheduling cycle. It is tried again, too: it may
	// just be refused by what a node reported before.
	deciding atomic.Pointer[corev1.Pod]

	mu      sync.Mutex
	refused map[types.UID]*corev1.Pod
	pending bool // a release
	next    time.Duration
	last    time.Time // when pods were released
}

func newWaitingPods(activate func(map[string]*corev1.Pod)) *waitingPods {
	return &waitingPods{activate: activate, delay: releaseDelay, refused: map[types.UID]*corev1.Pod{}}
}

// add records that a pod was refused.
func (w *waitingPods) add(pod *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused[pod.UID] = pod
}

// remove drops a pod that was deleted or has been given a node.
func (w *waitingPods) remove(pod types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.refused, pod)
}

// release returns all pods to the scheduling queue after a delay. Those that are refused
// again wait again.
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
