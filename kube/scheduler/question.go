package scheduler

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/scheduler/evict"
)

// question is what a pod needs from a node. Pods with equal keys get equal answers from the same
// books.
type question struct {
	// asks reports whether the pod asks for CPUs of its own.
	asks bool
	ask  ledger.Ask
	cpus int // that the pod asks for, 0 if it does not ask
	// borrows is 1 for a pod that requests less than it asks for, which an agent serves last, else 0.
	borrows int
	// batch reports whether the pod is a batch pod that can be evicted, see [evict.Evictable].
	batch bool
	key   string
}

// newQuestion parses a pod's annotations. The error is for the user.
func newQuestion(pod *corev1.Pod) (question, error) {
	intent, err := api.Parse(pod)
	if err != nil {
		return question{}, err
	}
	q := question{asks: intent.Asks(), ask: intent.Ask, cpus: intent.Ask.CPUs(), batch: evict.Evictable(pod, intent.Class)}
	if !api.Covers(&intent.Ask) {
		q.borrows = 1
	}
	if q.key = keyOf(&intent.Ask); q.batch {
		q.key += " batch"
	}
	return q, nil
}

// keyOf encodes everything that affects whether and how well a pod can be placed. Names of
// containers do not, nor do the requests of containers that get exclusive CPUs.
func keyOf(ask *ledger.Ask) string {
	text := make([]byte, 0, 128)
	text = append(text, ask.Policy...)
	text = append(append(text, ' '), ask.FullCores...)
	text = strconv.AppendInt(append(text, ' '), int64(ask.SharedRequest), 10)
	for i := range ask.Containers {
		c := &ask.Containers[i]
		text = strconv.AppendUint(append(text, ' '), uint64(c.Role), 10)
		text = strconv.AppendInt(append(text, ' '), int64(c.CPUs), 10)
		if ask.Policy == placement.StaticBurst {
			text = strconv.AppendInt(append(text, ' '), int64(c.Request), 10)
		}
	}
	return string(text)
}

// amount returns how much of a node's CPU time the pod takes, as exclusive CPUs or by request.
func (q *question) amount() ledger.MilliCPU {
	return q.ask.SharedRequest + ledger.MilliCPU(q.cpus)*1000
}

// SignPod returns the part of the pod's signature that this plugin depends on. The framework reuses
// results about nodes for pods with equal signatures, except for pods that a plugin does not sign.
func (p *Plugin) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	q, err := newQuestion(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, err.Error())
	}
	if q.asks && p.args.Ceilings.For(pod.Namespace).ExclusiveCPUs.PerNamespace != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, "what its namespace has is counted for each pod")
	}
	return []fwk.SignFragment{{Key: "pinfold.dev/v1.Pod.ask()", Value: q.key}}, nil
}
