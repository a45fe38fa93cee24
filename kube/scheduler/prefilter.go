package scheduler

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/kube/nodetopology"
)

// syncTimeout bounds the scheduler's wait for the first list of topologies at its start.
const syncTimeout = 30 * time.Second

// PreFilter parses the pod's annotations and rejects pods that no node can serve. It never returns
// Skip, because Filter must also keep pods that ask for no CPUs off the exclusive CPUs of others.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	p.shared.waiting.Decide(pod)
	p.shared.leads.Store(true)
	q, err := newQuestion(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	if q.asks {
		for _, message := range []string{p.unread(), exceedsObject(pod), p.aboveCeiling(&q, pod, nodes), p.largerThanAll(q, nodes)} {
			if message != "" {
				p.shared.waiting.Add(pod)
				return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, message)
			}
		}
	}
	ranks := p.ranks.of(q.key, p.shared.reports.Changes(), len(nodes))
	state.Write(cycleKey, &cycle{question: q, report: newReport(), ranks: ranks, trials: new(atomic.Int64)})
	return nil, nil
}

// unread returns why no topologies have been read yet, "" if they have.
func (p *Plugin) unread() string {
	switch {
	case p.shared.synced():
		return ""
	case p.shared.missing.Load():
		return nodetopology.ErrNoDefinition.Error()
	}
	return "the NodeTopologies could not be listed yet: see the scheduler's log"
}

// largerThanAll returns an error message if the pod needs more CPUs than the largest machine has.
// It returns "" if the pod fits some machine or a node has no usable topology.
func (p *Plugin) largerThanAll(q question, nodes []fwk.NodeInfo) string {
	largest, where := 0, ""
	for _, node := range nodes {
		t := p.shared.reports.Of(node.Node())
		if !t.Usable() || t.CPUs() >= q.cpus {
			return ""
		}
		if name := node.Node().Name; t.CPUs() > largest || t.CPUs() == largest && name < where {
			largest, where = t.CPUs(), name
		}
	}
	if where == "" {
		return ""
	}
	return fmt.Sprintf("limit %d is more than the largest machine has (%d CPUs on %s)", q.cpus, largest, where)
}

const (
	// maxObject is the largest object that etcd accepts by default (--max-request-bytes).
	maxObject = 1536 << 10
	// podGrowth and containerGrowth are what a pod and each of its containers may add when the pod
	// is bound and runs: conditions, and the status of the container.
	podGrowth, containerGrowth = 32 << 10, 1 << 10
)

// exceedsObject returns an error message if a pod that asks is so large that its status may not be
// written later, otherwise "". It would then keep its CPUs after its end. Fields that the scheduler
// does not see (managedFields) are not counted.
func exceedsObject(pod *corev1.Pod) string {
	containers := len(pod.Spec.InitContainers) + len(pod.Spec.Containers)
	size := pod.Size() + podGrowth + containers*containerGrowth
	if size <= maxObject {
		return ""
	}
	return fmt.Sprintf("the pod may have %d bytes with the status of its %d containers, and the API server stores %d: make it smaller", size, containers, maxObject)
}

// cycleKey is the plugin's key in the CycleState.
const cycleKey fwk.StateKey = Name

// cycle is the plugin's part of a CycleState. It does not depend on the pods of any node, so AddPod
// and RemovePod have no bookkeeping to do.
type cycle struct {
	question question
	report   *report
	ranks    ranks
	// trial is true in the clones with which preemption tries nodes without its victims. All clones count
	// trials together.
	trial  bool
	trials *atomic.Int64
}

// Clone implements the framework's StateData. The clone shares the report: the framework filters
// nodes with nominated pods on a clone, and their results belong to the pod's message.
func (c *cycle) Clone() fwk.StateData {
	clone := *c
	return &clone
}

// cycleOf returns the plugin's part of a CycleState.
func cycleOf(state fwk.CycleState) (*cycle, error) {
	data, err := state.Read(cycleKey)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: its PreFilter has not run in this cycle: %w", Name, err)
	}
	c, ok := data.(*cycle)
	if !ok {
		return nil, fmt.Errorf("plugin %s: its state is a %T", Name, data)
	}
	return c, nil
}

// knownRank returns the rank of a node that has not changed since a pod with the same question was
// found to fit it. It returns false in trials and for pod groups, where the NodeInfo has pods added
// or removed, for pod groups without a new generation.
func (c *cycle) knownRank(state fwk.CycleState, node fwk.NodeInfo) (rank, bool) {
	if c.trial || state.IsPodGroupSchedulingCycle() {
		return 0, false
	}
	return c.ranks.find(node.GetGeneration())
}

// PreFilterExtensions implements the framework's PreFilterPlugin.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod does nothing, because Filter reads the pods of the NodeInfo that it is passed.
func (p *Plugin) AddPod(context.Context, fwk.CycleState, *corev1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
	return nil
}

// RemovePod marks the cycle as a trial. Preemption calls it for each possible victim, with a clone
// of the CycleState. Results of trials do not describe the cluster as it is, so they go to a report
// of their own.
func (p *Plugin) RemovePod(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	c, err := cycleOf(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if !c.trial {
		c.trial, c.report = true, newReport()
	}
	return nil
}
