package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/scheduler/agents"
)

// Filter checks whether the pod fits the node's books. A node without a usable topology takes no
// pod that asks for CPUs. For other pods, only the exclusive CPUs of bound pods count there,
// besides kube-scheduler's own checks. So a cluster in which only some nodes have agents keeps
// working.
func (p *Plugin) Filter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	c, err := cycleOf(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	status := p.filter(c, state, pod, node)
	if !status.IsSuccess() && c.report.first() {
		p.shared.waiting.Add(pod)
	}
	return status
}

func (p *Plugin) filter(c *cycle, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if pod.Spec.NodeName != "" {
		return nil // kube-scheduler tries a resize in place on the pod's own node
	}
	if _, known := c.knownRank(state, node); known {
		return nil
	}
	t := p.shared.reports.Of(node.Node())
	if c.question.batch && p.shared.batchStarves(node.Node()) {
		return c.refuse(node, finding{shortage: shortage{kind: starvedBatch}})
	}
	unfit := p.unfit(&c.question, t)
	if unfit != nil && c.question.asks {
		return c.refuse(node, *unfit)
	}
	s := p.stateOf(state, c, pod, node, t)
	if unfit != nil {
		return p.refuse(c, s.fits(&c.question), node)
	}
	a := s.answer(&c.question)
	if a.err == nil && s.lasting {
		c.ranks.put(s.generation, p.rankOf(a))
		if p.shared.reports.Of(node.Node()) != t { // its agent has published meanwhile
			c.ranks.drop(s.generation)
		}
	}
	return p.refuse(c, a.err, node)
}

// refuse records a node's finding and returns it as a status. Trials of preemption are not counted.
func (c *cycle) refuse(node fwk.NodeInfo, f finding) *fwk.Status {
	if !c.trial {
		refusals.WithLabelValues(reasonNames[f.kind]).Inc()
	}
	return c.report.status(node.Node().Name, f)
}

// unfit returns why a pod cannot run on a node with this topology whatever else runs there, or nil.
// The node has books only if it returns nil.
func (p *Plugin) unfit(q *question, t *agents.Report) *finding {
	switch {
	case t == nil:
		return &finding{shortage: shortage{kind: noTopology}}
	case t.Err != nil:
		return &finding{shortage: shortage{kind: badTopology}, detail: brief(t.Err.Error())}
	case !q.asks:
		return nil
	case !t.Silent.IsZero():
		silence := p.shared.reports.SilentFor(t).Round(time.Second)
		return &finding{shortage: shortage{kind: silentAgent}, detail: "for " + silence.String()}
	case t.State.AgentHealth == nodetopology.AgentObserves:
		return &finding{shortage: shortage{kind: observingAgent}}
	case t.State.AgentHealth != nodetopology.AgentHealthy:
		return &finding{shortage: shortage{kind: failingAgent}, detail: brief(t.State.AgentHealth)}
	case t.State.Allocations == nil:
		return &finding{shortage: shortage{kind: oldAgent}, detail: t.State.Writer}
	case t.State.KubeletPolicy != nodetopology.KubeletPolicyNone && t.State.KubeletPolicy != "": // "" is unknown
		return &finding{shortage: shortage{kind: badKubelet, text: brief(t.State.KubeletPolicy)}}
	case t.CPUs() < q.cpus:
		return &finding{shortage: shortage{kind: tooSmall, want: int64(q.cpus)}, have: int64(t.CPUs())}
	}
	return nil
}

// brief cuts off what is too long for the condition of a pod. Agents write these texts.
func brief(text string) string { return api.Shorten(text, 300) }

// stateOf returns the node's state for this cycle.
func (p *Plugin) stateOf(state fwk.CycleState, c *cycle, pod *corev1.Pod, node fwk.NodeInfo, t *agents.Report) *nodeState {
	use := stateUse{transient: c.trial || state.IsPodGroupSchedulingCycle()}
	if use.transient {
		use.without = pod.UID // a pod group is tried with its pods on the nodes
	}
	if c.trial { // for each victim of each node
		use.trials = int(c.trials.Add(1))
	}
	return p.nodes.stateOf(node, t, use)
}

// refuse returns the status for an error of the node's books. It returns nil if err is nil.
func (p *Plugin) refuse(c *cycle, err error, node fwk.NodeInfo) *fwk.Status {
	if err == nil {
		return nil
	}
	report := func(kind shortageKind, want, have int64) *fwk.Status {
		return c.refuse(node, finding{shortage: shortage{kind: kind, want: want}, have: have})
	}
	var exclusive *ledger.ExclusiveError
	var confinement *ledger.ConfinementError
	var shared *ledger.SharedError
	switch {
	case errors.As(err, &exclusive):
		kind := noExclusive
		switch {
		case exclusive.GaveUp:
			kind = gaveUp
		case exclusive.Have > exclusive.Want:
			kind = oddCores
		case exclusive.FullCores == placement.FullCoresRequired:
			kind = noWholeCores
		}
		return report(kind, int64(exclusive.Want), int64(exclusive.Have))
	case errors.As(err, &confinement):
		return report(noConfinement, int64(confinement.Want), int64(confinement.Have))
	case errors.As(err, &shared) && !c.question.asks && lacksRequests(node, shared.Need):
		return fwk.NewStatus(fwk.Unschedulable, insufficientCPU)
	case errors.As(err, &shared):
		return report(noShared, int64(shared.Need), int64(shared.Have))
	default:
		return fwk.AsStatus(fmt.Errorf("ask the books of %s: %w", node.Node().Name, err))
	}
}

// insufficientCPU is the reason of NodeResourcesFit. Users and tools know it, so it is used where
// the requests alone exceed the node, as in a cluster without pods that ask.
const insufficientCPU = "Insufficient cpu"

func lacksRequests(node fwk.NodeInfo, need ledger.MilliCPU) bool {
	return node.GetRequested().GetMilliCPU()+int64(need) > node.GetAllocatable().GetMilliCPU()
}
