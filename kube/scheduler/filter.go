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
	"pinfold.dev/pinfold/kube/nodetopology"
)

// Filter tells whether the node can take the pod by its books. A node without a
// usable topology takes no pod that asks for CPUs. Other pods are left to
// kube-scheduler's own checks there, so that a cluster in which not every node has
// an agent works as it did; but CPUs that bound pods have for themselves still count.
func (p *Plugin) Filter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	c, err := p.cycleOf(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	status := p.filter(c, state, pod, node)
	if !status.IsSuccess() && c.report.first() {
		p.shared.waiting.add(pod)
	}
	return status
}

func (p *Plugin) filter(c *cycle, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if pod.Spec.NodeName != "" {
		return nil // a resize in place, which kube-scheduler tries on the pod's own node
	}
	if _, known := c.known(state, node); known {
		return nil
	}
	kept, t := p.nodes.find(node.Node())
	if missing := unfit(&c.question, t, p.shared.agents.now); missing != nil {
		if c.question.asks {
			return c.report.status(node.Node().Name, *missing)
		}
		if err := p.stateOf(state, c, pod, node, kept, t).fits(&c.question); err != nil {
			return p.refuse(c, err, node)
		}
		return nil
	}
	s := p.stateOf(state, c, pod, node, kept, t)
	a := s.answer(&c.question)
	if a.err != nil {
		return p.refuse(c, a.err, node)
	}
	if kept.last.Load() == s { // and not one that was made for once
		c.ranks.put(s.generation, p.rankOf(a))
	}
	return nil
}

// unfit returns why a pod that asks cannot run on a node with this topology whatever
// else runs there, or nil. The books can be asked only where it returns nil.
func unfit(q *question, t *nodeTopology, now func() time.Time) *finding {
	switch {
	case t == nil:
		return &finding{shortage: shortage{kind: noTopology}}
	case t.err != nil:
		return &finding{shortage: shortage{kind: badTopology}, detail: t.err.Error()}
	case !q.asks:
		return nil
	case !t.silent.IsZero():
		return &finding{shortage: shortage{kind: silentAgent}, detail: "for " + now().Sub(t.silent).Round(time.Second).String()}
	case t.state.AgentHealth != nodetopology.AgentHealthy:
		return &finding{shortage: shortage{kind: failingAgent}, detail: t.state.AgentHealth}
	case t.badKubelet != "":
		return &finding{shortage: shortage{kind: badKubelet, text: t.badKubelet}}
	case t.cpus < q.cpus:
		return &finding{shortage: shortage{kind: tooSmall, want: int64(q.cpus)}, have: int64(t.cpus)}
	}
	return nil
}

// stateOf returns the state of a node as it is to be seen in this cycle.
func (p *Plugin) stateOf(state fwk.CycleState, c *cycle, pod *corev1.Pod, node fwk.NodeInfo, kept *keptNode, t *nodeTopology) *nodeState {
	use := stateUse{transient: c.trial || state.IsPodGroupSchedulingCycle()}
	if use.transient {
		use.without = pod.UID // pod groups are tried with their pods on the nodes
	}
	return p.nodes.stateOf(kept, node, t, use)
}

// refuse puts an error of Books.Decide into the terms of the report.
func (p *Plugin) refuse(c *cycle, err error, node fwk.NodeInfo) *fwk.Status {
	var exclusive *ledger.ExclusiveError
	var confinement *ledger.ConfinementError
	var shared *ledger.SharedError
	switch {
	case errors.As(err, &exclusive):
		kind := noExclusive
		if exclusive.FullCores == placement.FullCoresRequired {
			kind = noWholeCores
		}
		if exclusive.Have > exclusive.Want {
			kind = oddCores
		}
		return c.report.status(node.Node().Name, finding{shortage: shortage{kind: kind, want: int64(exclusive.Want)}, have: int64(exclusive.Have)})
	case errors.As(err, &confinement):
		return c.report.status(node.Node().Name, finding{shortage: shortage{kind: noConfinement, want: int64(confinement.Want)}, have: int64(confinement.Have)})
	case errors.As(err, &shared) && !c.question.asks && lacksRequests(node, shared.Need):
		return fwk.NewStatus(fwk.Unschedulable, insufficientCPU)
	case errors.As(err, &shared):
		return c.report.status(node.Node().Name, finding{shortage: shortage{kind: noShared, want: int64(shared.Need)}, have: int64(shared.Have)})
	default:
		return fwk.AsStatus(fmt.Errorf("ask the books of %s: %w", node.Node().Name, err))
	}
}

// insufficientCPU is what NodeResourcesFit says. Where requests alone are too many,
// as on a cluster without pods that ask, users and tools read what they know.
const insufficientCPU = "Insufficient cpu"

func lacksRequests(node fwk.NodeInfo, need ledger.MilliCPU) bool {
	return node.GetRequested().GetMilliCPU()+int64(need) > node.GetAllocatable().GetMilliCPU()
}
