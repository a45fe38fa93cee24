package scheduler

import (
	"context"
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/kube/api"
)

// assumedRank ranks the claims of assumed pods after those of bound pods and before those of
// nominated pods. Signed allocations are ranked by the time of the decision instead.
const assumedRank = math.MaxInt64 - 1

// Reserve decides on the chosen node and stores the decision for Bind and for the next pods. It uses
// the same state as Filter, so the pod still fits.
func (p *Plugin) Reserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	status := p.reserve(ctx, state, pod, nodeName)
	if status.IsSuccess() {
		p.shared.waiting.remove(pod.UID)
	} else {
		p.shared.waiting.add(pod)
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
	t := p.shared.topologies.of(node.Node())
	if unfit := p.unfit(&c.question, t); unfit != nil {
		return c.report.status(nodeName, *unfit)
	}
	decision, err := p.stateOf(state, c, pod, node, t).books.Decide(c.question.ask)
	if err != nil {
		return p.refuse(c, err, node)
	}
	allocation, rank := p.shared.signing.write(pod.UID, api.NewAllocation(nodeName, t.machine(), decision))
	p.shared.reservations.put(pod, reservation{
		node:            nodeName,
		resourceVersion: pod.ResourceVersion,
		claim:           decision.Claim(ledger.PodID(pod.UID), rank),
		allocation:      allocation,
	})
	klog.FromContext(ctx).V(4).Info("Reserved CPUs", "pod", klog.KObj(pod), "node", nodeName, "allocation", allocation)
	return nil
}

// Unreserve releases the pod's reservation. The framework calls it after every failure between
// Reserve and the end of Bind, before it takes the pod off the node.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	p.shared.reservations.drop(pod.UID)
}
