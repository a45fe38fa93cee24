package scheduler

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
)

// syncTimeout bounds the wait for the first list of topologies. The scheduler waits for
// the informer before it starts, so only the handling of the list is left.
const syncTimeout = 10 * time.Second

// PreFilter reads the pod's words. It never returns Skip: pods that ask for nothing
// must not be promised CPUs that others have for themselves.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	p.shared.waiting.deciding.Store(pod)
	if err := p.waitForTopologies(ctx); err != nil {
		return nil, fwk.AsStatus(err)
	}
	if err := p.catchUp(ctx); err != nil {
		return nil, fwk.AsStatus(err)
	}
	p.shared.auditor.activate()
	q, err := newQuestion(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	if q.asks {
		for _, message := range []string{p.misconfigured(), p.aboveCeiling(&q, pod, nodes), p.largerThanAll(q, nodes)} {
			if message != "" {
				p.shared.waiting.add(pod)
				return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, message)
			}
		}
	}
	known := p.ranks.of(q.key, p.shared.topologies.changes.Load(), len(nodes))
	p.begin(state, &cycle{question: q, report: newReport(), ranks: known})
	return nil, nil
}

func (p *Plugin) waitForTopologies(ctx context.Context) error {
	if p.shared.synced() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), p.shared.synced) {
		return fmt.Errorf("NodeResourceTopologies could not be listed within %v; the scheduler's log says why", syncTimeout)
	}
	return nil
}

// largerThanAll returns what to say to a pod that needs more CPUs than any machine
// has, and "" where that is not so, or not known because a node has not reported.
func (p *Plugin) largerThanAll(q question, nodes []fwk.NodeInfo) string {
	largest, where := 0, ""
	for _, node := range nodes {
		t := p.shared.topologies.of(node.Node())
		if t == nil || t.err != nil {
			return ""
		}
		if n := t.cpus; n >= q.cpus {
			return ""
		} else if n > largest || n == largest && node.Node().Name < where {
			largest, where = n, node.Node().Name
		}
	}
	if where == "" {
		return ""
	}
	return fmt.Sprintf("limit %d is more than the largest machine has (%d CPUs on %s)", q.cpus, largest, where)
}

// PreFilterExtensions implements the framework's PreFilterPlugin.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod has nothing to do: Filter derives all from the NodeInfo that it is given.
func (p *Plugin) AddPod(context.Context, fwk.CycleState, *corev1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
	return nil
}

// RemovePod is called for the pods that preemption tries to do without, on a clone
// of the cycle's state. What nodes say from then on is not about the cluster as it
// is, and must not get into the message about it.
func (p *Plugin) RemovePod(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	c, err := p.cycleOf(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if !c.trial {
		c.trial, c.report = true, newReport()
	}
	return nil
}
