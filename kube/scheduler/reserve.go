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

// assumedRank lets pods that are not bound yet lose against all that are, and win
// against those that are only nominated. Where allocations are signed, the time of the
// decision counts for them too.
const assumedRank = math.MaxInt64 - 1

// Reserve decides once more, on the node that was chosen, and remembers the decision
// for Bind and for the pods that come next. The state is the one that Filter used, so
// the answer is the same.
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
	c, err := p.cycleOf(state)
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
	kept, t := p.nodes.find(node.Node())
	if missing := unfit(&c.question, t, p.shared.agents.now); missing != nil {
		return c.report.status(nodeName, *missing)
	}
	decision, err := p.stateOf(state, c, pod, node, kept, t).books.Decide(c.question.ask)
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

// Unreserve gives back what Reserve took. The framework calls it for every failure
// between Reserve and the end of Bind, before it takes the pod off the node.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	p.shared.reservations.drop(pod.UID)
}
