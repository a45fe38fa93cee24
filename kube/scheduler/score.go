package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/core/ledger"
)

// Score is the [rank] of the best placement that the node has for the pod: the
// smaller the better, until NormalizeScore. To pods that ask for nothing all nodes
// are alike.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	c, err := cycleOf(state)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	t := p.shared.topologies.get(node.Node().Name)
	if !c.question.asks || unfit(c.question, t) != nil {
		return 0, nil
	}
	a, books := p.answer(state, c, pod, node, t)
	if a.err != nil {
		return 0, fwk.AsStatus(a.err) // Filter has just let it pass
	}
	return int64(rankOf(a.decision.Quality, p.use(books, c.question))), nil
}

// use is how much of the node's CPUs is taken with the pod on it, in thousandths,
// turned round where full nodes are preferred.
func (p *Plugin) use(books *ledger.Books, q question) int {
	exclusive, shared := books.Exclusive().Len(), books.Shared().Len()
	taken := ledger.MilliCPU(exclusive)*1000 + books.SharedRequests() + q.amount()
	use := min(int(taken)/max(exclusive+shared, 1), fullUse)
	if p.args.ScoringStrategy == MostAllocated {
		use = fullUse - use
	}
	return use
}

// ScoreExtensions implements the framework's ScorePlugin.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore turns ranks into scores; see normalize.
func (p *Plugin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	normalize(scores)
	return nil
}
