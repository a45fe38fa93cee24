package scheduler

import (
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"
)

// cycleKey is where the framework keeps our part of a scheduling cycle.
const cycleKey fwk.StateKey = Name

// cycle is what PreFilter finds out about the pod of one scheduling cycle, and what
// the nodes then say of it. It holds nothing about pods on nodes, so the framework's
// AddPod and RemovePod need no bookkeeping.
type cycle struct {
	question question
	report   *report
	// ranks are the answers of nodes to the question.
	ranks *ranks
	// trial is true in the clones in which preemption tries what would be without
	// its victims.
	trial bool
}

// Clone implements the framework's StateData. The report is shared: a node that is
// asked with nominated pods on it, which happens on a clone, counts like any other.
func (c *cycle) Clone() fwk.StateData {
	clone := *c
	return &clone
}

// known returns the rank of a node that has taken a pod of this question before and has not
// changed since. What is tried out, and pod groups, whose pods are put on nodes that then
// look unchanged, are not for it.
func (c *cycle) known(state fwk.CycleState, node fwk.NodeInfo) (rank, bool) {
	if c.trial || state.IsPodGroupSchedulingCycle() {
		return 0, false
	}
	return c.ranks.find(node.GetGeneration())
}

// lastCycle is the cycle that PreFilter began last. Every node is asked about its pod
// twice, and the framework's way of finding it, by its name in a general map, took longer
// than what there is to find out about most nodes.
type lastCycle struct {
	state fwk.CycleState
	cycle *cycle
}

func (p *Plugin) begin(state fwk.CycleState, c *cycle) {
	state.Write(cycleKey, c)
	p.last.Store(&lastCycle{state, c})
}

// cycleOf returns our part of a scheduling cycle, or of a clone of one.
func (p *Plugin) cycleOf(state fwk.CycleState) (*cycle, error) {
	if last := p.last.Load(); last != nil && last.state == state {
		return last.cycle, nil
	}
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
