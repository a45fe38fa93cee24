package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// SignPod tells the framework which pods are alike to us, so that it can reuse what
// it found out about nodes for one for the next. Without it, one plugin would turn
// that off for all.
func (p *Plugin) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	q, err := newQuestion(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, err.Error())
	}
	if q.asks && p.args.Ceilings.For(pod.Namespace).ExclusiveCPUs.PerNamespace != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, "what its namespace has is counted for each pod")
	}
	return []fwk.SignFragment{{Key: "pinfold.dev/v1.Pod.ask()", Value: q.key.Value()}}, nil
}
