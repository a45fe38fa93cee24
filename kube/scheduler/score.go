package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Score is the [rank] of the best placement that the node has for the pod: the
// smaller the better, until NormalizeScore. To pods that ask for nothing all nodes
// are alike.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	c, err := p.cycleOf(state)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	if !c.question.asks {
		return 0, nil
	}
	if r, known := c.known(state, node); known {
		return int64(r), nil
	}
	kept, t := p.nodes.find(node.Node())
	if unfit(&c.question, t, p.shared.agents.now) != nil {
		return 0, nil
	}
	a := p.stateOf(state, c, pod, node, kept, t).answer(&c.question)
	if a.err != nil {
		return 0, fwk.AsStatus(a.err) // Filter has just let it pass
	}
	return int64(p.rankOf(a)), nil
}

func (p *Plugin) rankOf(a *answer) rank {
	use := a.use
	if p.args.ScoringStrategy == MostAllocated {
		use = fullUse - use
	}
	return rankOf(a.quality, use)
}

// ScoreExtensions implements the framework's ScorePlugin.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore turns ranks into scores; see normalize.
func (p *Plugin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	normalize(scores)
	return nil
}
