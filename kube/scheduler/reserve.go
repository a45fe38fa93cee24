package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Reserve checks the ceiling of the pod's namespace again: the pods of a group pass PreFilter before the
// first of them is on a node. The CPUs themselves need no reservation, because the pod is on its node's
// list from here on, and the node's books have it.
func (p *Plugin) Reserve(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ string) *fwk.Status {
	c, err := cycleOf(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if message := p.aboveCeilingNow(c, pod); message != "" {
		p.shared.waiting.Add(pod)
		return fwk.NewStatus(fwk.Unschedulable, message)
	}
	p.shared.waiting.Remove(pod.UID)
	if c.question.asks {
		placements.WithLabelValues(string(c.question.ask.Policy)).Inc()
		p.shared.predicted.Store(pod.UID, nil)
	}
	return nil
}

// Unreserve implements the framework's ReservePlugin.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	p.shared.predicted.Delete(pod.UID)
}
