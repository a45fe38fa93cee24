package scheduler

import (
	"strconv"
	"unique"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
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
	key  questionKey
	// warnings are about words of the pod that have no effect.
	warnings []string
}

// questionKey is a text of which each exists once, so that two are compared, hundreds of
// times for every pod, without being read.
type questionKey = unique.Handle[string]

// newQuestion reads a pod's words. The error is for the user.
func newQuestion(pod *corev1.Pod) (question, error) {
	intent, err := api.Parse(pod)
	if err != nil {
		return question{}, err
	}
	q := question{asks: intent.Asks(), ask: intent.Ask, warnings: intent.Warnings}
	q.cpus = q.ask.CPUs()
	q.key = keyOf(&q.ask)
	return q, nil
}

// keyOf writes down all of a question that makes a difference to whether and how well a
// pod can be placed. That excludes what containers request that get CPUs for themselves,
// and their names.
func keyOf(ask *ledger.Ask) questionKey {
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
	return unique.Make(string(text))
}

// amount is how much of a node's CPU time the pod will take, in CPUs or as a share.
func (q *question) amount() ledger.MilliCPU {
	return q.ask.SharedRequest + ledger.MilliCPU(q.cpus)*1000
}
