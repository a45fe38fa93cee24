package scheduler

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/kube/api"
)

// Reserve decides which CPUs of the chosen node the pod gets, and stores the decision for Bind and
// for the next pods. It uses the same state as Filter, so the pod still fits. On a node whose agent
// allocates it decides nothing.
func (p *Plugin) Reserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	status := p.reserve(ctx, state, pod, nodeName)
	if status.IsSuccess() {
		p.shared.waiting.Remove(pod.UID)
	} else {
		p.shared.waiting.Add(pod)
	}
	return status
}

func (p *Plugin) reserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	c, err := cycleOf(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if !c.question.asks {
		return nil
	}
	node, err := p.handle.SnapshotSharedLister().NodeInfos().Get(nodeName)
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("reserve CPUs on %s: %w", nodeName, err))
	}
	if message := p.aboveCeilingNow(c, pod); message != "" {
		return fwk.NewStatus(fwk.Unschedulable, message)
	}
	t := p.shared.reports.Of(node.Node())
	if unfit := p.unfit(&c.question, t); unfit != nil {
		return c.report.status(nodeName, *unfit)
	}
	if t.Allocates() {
		return nil
	}
	begun := time.Now()
	decision, err := p.stateOf(state, c, pod, node, t).books.Decide(c.question.ask)
	if err != nil {
		return p.refuse(c, err, node)
	}
	allocation, rank := p.shared.signer.Write(pod.UID, api.NewAllocation(nodeName, t.Machine(), decision))
	if message := exceedsAnnotations(pod, p.added(pod, allocation)); message != "" {
		return fwk.NewStatus(fwk.Unschedulable, "has CPUs for the pod that cannot be recorded: "+message)
	}
	p.shared.reservations.put(pod, reservation{
		node:            nodeName,
		resourceVersion: pod.ResourceVersion,
		claim:           decision.Claim(ledger.PodID(pod.UID), rank),
		allocation:      allocation,
		policy:          decision.Containers[0].Policy,
		placed:          decision.Result,
	})
	p.shared.metrics.choose(begun)
	klog.FromContext(ctx).V(4).Info("Reserved CPUs", "pod", klog.KObj(pod), "node", nodeName, "allocation", allocation)
	return nil
}

// Unreserve releases the pod's reservation. The framework calls it after every failure between
// Reserve and the end of Bind, before it takes the pod off the node.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	p.shared.reservations.drop(pod.UID)
}

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
	// policy and placed are for metrics.
	policy placement.Policy
	placed placement.Result
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

// matches reports whether a pod that has just been bound got what was reserved for it. before is
// the pod as it was before it was bound.
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
