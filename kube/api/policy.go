package api

import (
	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/placement"
)

// PolicyNone is the value of cpu-policy that leaves a pod in the shared CPUs. It occurs in
// annotations only and is never passed to package placement.
const PolicyNone placement.Policy = "none"

// CPUSetSchedulerKeys returns the annotation keys of cpuset-scheduler, including aliases.
func CPUSetSchedulerKeys() []string { return []string{CPUSetSchedulerAnnotation, "cpuset-scheduler"} }

// CPUPolicyKeys returns the annotation keys of the CPU policy, including aliases.
func CPUPolicyKeys() []string { return []string{CPUPolicyAnnotation, "cpu-policy"} }

func schedulerSpellings() []spelling[string] {
	return annotation(oneOf("true", "false"), CPUSetSchedulerKeys()...)
}

func policySpellings() []spelling[placement.Policy] {
	return annotation(oneOf(placement.Static, placement.StaticBurst, PolicyNone), CPUPolicyKeys()...)
}

func fullCoresSpellings() []spelling[placement.FullCores] {
	return annotation(oneOf(placement.FullCoresPreferred, placement.FullCoresRequired), FullCoresAnnotation)
}

// wish is what the words about placement say.
type wish struct {
	asks      bool
	asking    Word // the word that asks
	policy    placement.Policy
	fullCores placement.FullCores
	warnings  []string
}

// parseWish reads the words about placement. Those that only matter to a pod that asks cannot be
// wrong on one that does not.
func parseWish(pod *corev1.Pod) (wish, error) {
	w := wish{policy: placement.Static, fullCores: placement.FullCoresPreferred}
	value, asking, err := look(pod, schedulerSpellings())
	if err != nil {
		return w, err
	}
	policy, policyWord, policyErr := look(pod, policySpellings())
	full, fullWord, fullErr := look(pod, fullCoresSpellings())
	if value != "true" {
		for _, idle := range []Word{policyWord, fullWord} {
			if idle != (Word{}) && idle.Value != string(PolicyNone) {
				w.warnings = append(w.warnings, idle.String()+" has no effect without "+Word{Key: CPUSetSchedulerAnnotation, Value: "true"}.String())
			}
		}
		return w, nil
	}
	if policyErr != nil {
		return w, policyErr
	}
	if fullErr != nil {
		return w, fullErr
	}
	if policyWord != (Word{}) {
		w.policy = policy
	}
	if fullWord != (Word{}) {
		w.fullCores = full
	}
	if w.policy == placement.StaticBurst && w.fullCores == placement.FullCoresRequired {
		w.warnings = append(w.warnings, fullWord.String()+" has no effect with "+policyWord.String())
	}
	w.asks, w.asking = w.policy != PolicyNone, asking
	return w, nil
}
