package scheduler

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/kube/api"
)

// reservation is what a pod has been given between Reserve and the moment at which
// the scheduler's cache holds the bound pod with its annotation.
type reservation struct {
	node string
	// resourceVersion is that of the pod which was decided about. The pod that
	// the scheduler's cache assumes to be bound is a copy of it; any other
	// version on the node has come from the API server and speaks for itself.
	resourceVersion string
	claim           ledger.Claim
	// allocation is the text of the annotation.
	allocation string
}

// reservations are those of all pods, by their UID.
type reservations struct {
	mu   sync.RWMutex
	pods map[types.UID]reservation
}

func newReservations() *reservations {
	return &reservations{pods: map[types.UID]reservation{}}
}

func (r *reservations) put(pod *corev1.Pod, res reservation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods[pod.UID] = res
}

// made reports whether a pod that has just been bound is the one that was decided about
// here, and has what was reserved for it.
func (r *reservations) made(before, bound *corev1.Pod) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	res, ok := r.pods[bound.UID]
	return ok && res.resourceVersion == before.ResourceVersion && res.node == bound.Spec.NodeName &&
		res.allocation == bound.Annotations[api.AllocationAnnotation]
}

// arrived is called with a pod that has been seen bound: its annotation takes over.
func (r *reservations) arrived(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if res, ok := r.pods[pod.UID]; ok && res.resourceVersion != pod.ResourceVersion {
		delete(r.pods, pod.UID)
	}
}

// drop is called when the pod will not be bound, and when it is gone.
func (r *reservations) drop(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, uid)
}

// of returns the reservation that holds for a pod of the scheduler's cache.
func (r *reservations) of(pod *corev1.Pod) (reservation, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	res, ok := r.pods[pod.UID]
	if !ok || res.node != pod.Spec.NodeName || res.resourceVersion != pod.ResourceVersion {
		return reservation{}, false
	}
	return res, true
}
