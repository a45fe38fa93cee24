package api

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
)

// Intent is what a pod asks for, according to its annotations, labels and resources.
type Intent struct {
	// Ask is the question to a node's books. It has no Containers when the pod does not ask to be
	// placed.
	Ask ledger.Ask
	// Class is "" when the pod names none.
	Class nodeplan.Class
	// Burst is the zero value when the pod has no burst policy.
	Burst burst.Policy
	// Period is the CFS period, 0 when the pod names none.
	Period time.Duration
	// Warnings are about words that have no effect.
	Warnings []string
}

// Asks reports whether the pod asks for CPUs.
func (i *Intent) Asks() bool { return len(i.Ask.Containers) > 0 }

// Parse parses the annotations, labels and resources of a pod. Its errors are *ValueError,
// *ContradictionError and *LimitError, with messages for the pod's author. A pod with an error must
// not be scheduled as written.
func Parse(pod *corev1.Pod) (Intent, error) {
	w, err := parseWish(pod)
	if err != nil {
		return Intent{}, err
	}
	intent := Intent{Warnings: w.warnings}
	var classWord, burstWord, periodWord Word
	if intent.Class, classWord, err = parseClass(pod); err != nil {
		return Intent{}, err
	}
	if intent.Burst, burstWord, err = parseBurst(pod); err != nil {
		return Intent{}, err
	}
	if intent.Period, periodWord, err = parsePeriod(pod); err != nil {
		return Intent{}, err
	}
	if w.asks && intent.Class == nodeplan.BE {
		return Intent{}, &ContradictionError{A: w.asking, B: classWord,
			Advice: "batch pods live in the shared CPUs; remove one of the two"}
	}
	if intent.Burst.Mode == burst.None {
		burstWord = Word{}
	}
	for _, word := range []Word{burstWord, periodWord} {
		if word != (Word{}) && !hasLimit(pod) {
			intent.Warnings = append(intent.Warnings, word.name()+" has no effect, since no container has limits.cpu")
		}
	}
	if w.asks {
		intent.Ask = ledger.Ask{Policy: w.policy, FullCores: w.fullCores, Containers: placed(pod)}
		if err := checkLimits(pod, &intent.Ask, w.asking); err != nil {
			return Intent{}, err
		}
	}
	intent.Ask.SharedRequest = sharedRequest(pod, intent.Ask.Containers)
	return intent, nil
}

// hasLimit tells whether the kernel limits the CPU time of any part of the pod.
func hasLimit(pod *corev1.Pod) bool {
	if pod.Spec.Resources != nil && !pod.Spec.Resources.Limits.Cpu().IsZero() {
		return true
	}
	for _, m := range members(pod) {
		if !m.Resources.Limits.Cpu().IsZero() {
			return true
		}
	}
	return false
}
