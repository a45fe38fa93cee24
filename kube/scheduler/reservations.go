package scheduler

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/kube/api"
)

// reservation is the decision about a pod from Reserve until the scheduler's cache contains the
// bound pod with its annotation.
type reservation struct {
	node string
	// resourceVersion is the version of the pod for which the decision was made. The assumed pod in
	// the scheduler's cache has the same version. Any other version comes from the API server, and
	// its annotation is valid instead.
	resourceVersion string
	claim           ledger.Claim
	allocation      string // the annotation's text
}

// reservations holds the reservations of all pods by UID.
type reservations struct {
	mu   sync.RWMutex
	pods map[types.UID]reservation
}

func newReservations() *reservations { return &reservations{pods: map[types.UID]reservation{}} }

func (r *reservations) put(pod *corev1.Pod, res reservation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods[pod.UID] = res
}

// matches reports whether a pod that has just been bound got what was reserved for it. before is the
// pod as it was before it was bound.
func (r *reservations) matches(before, bound *corev1.Pod) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	res, ok := r.pods[bound.UID]
	return ok && res.resourceVersion == before.ResourceVersion && res.node == bound.Spec.NodeName &&
		res.allocation == bound.Annotations[api.AllocationAnnotation]
}

// arrived drops the reservation of a pod that has been seen bound, with its annotation.
func (r *reservations) arrived(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if res, ok := r.pods[pod.UID]; ok && res.resourceVersion != pod.ResourceVersion {
		delete(r.pods, pod.UID)
	}
}

// drop removes the reservation of a pod that will not be bound or was deleted.
func (r *reservations) drop(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, uid)
}

// of returns the valid reservation of a pod in the scheduler's cache.
func (r *reservations) of(pod *corev1.Pod) (reservation, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	res, ok := r.pods[pod.UID]
	if !ok || res.node != pod.Spec.NodeName || res.resourceVersion != pod.ResourceVersion {
		return reservation{}, false
	}
	return res, true
}
