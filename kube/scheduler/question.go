package scheduler

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/kube/api"
)

// question is what a pod wants of a node. Pods with equal keys get the same answers
// from the same books.
type question struct {
	// asks is false for a pod that wants no CPUs of its own choice.
	asks bool
	ask  ledger.Ask
	// cpus is the number of CPUs it asks for, 0 when it does not ask.
	cpus int
	key  string
	// warnings are about words of the pod that have no effect.
	warnings []string
}

// newQuestion reads a pod's words. The error is for the user.
func newQuestion(pod *corev1.Pod) (question, error) {
	intent, err := api.Parse(pod)
	if err != nil {
		return question{}, err
	}
	q := question{asks: intent.Asks(), ask: intent.Ask, warnings: intent.Warnings}
	q.cpus = q.ask.CPUs()
	q.key = fmt.Sprintf("%v", q.ask)
	return q, nil
}

// amount is how much of a node's CPU time the pod will take, in CPUs or as a share.
func (q question) amount() ledger.MilliCPU {
	return q.ask.SharedRequest + ledger.MilliCPU(q.cpus)*1000
}
