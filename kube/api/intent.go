package api

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/qos"
)

// Intent is what a pod asks for, according to its annotations, labels and resources.
type Intent struct {
	// Ask is the request for [ledger.Books.Decide]. It has no Containers if the pod does not ask
	// for CPUs.
	Ask ledger.Ask
	// MayMove is set if the agent may allocate better CPUs to the running pod.
	MayMove bool
	// Class is "" if the pod has none.
	Class qos.Class
	// Burst is the zero value if the pod has no burst policy.
	Burst burst.Policy
	// Period is the CFS period, 0 if the pod sets none.
	Period time.Duration
	// Warnings are about settings without effect.
	Warnings []string
}

// Asks reports whether the pod asks for CPUs.
func (i *Intent) Asks() bool { return len(i.Ask.Containers) > 0 }

// Parse parses the annotations, labels and resources of a pod. Its errors are for
// the pod's author. A pod with an error must not be scheduled as written.
func Parse(pod *corev1.Pod) (Intent, error) {
	w, err := parsePlacement(pod)
	if err != nil {
		return Intent{}, err
	}
	intent := Intent{MayMove: w.mayMove, Warnings: w.warnings}
	var classSetting, burstSetting, periodSetting setting
	if intent.Class, classSetting, err = parseClass(pod); err != nil {
		return Intent{}, err
	}
	if intent.Burst, burstSetting, err = parseBurst(pod); err != nil {
		return Intent{}, err
	}
	if intent.Period, periodSetting, err = parsePeriod(pod); err != nil {
		return Intent{}, err
	}
	if classSetting.asksForCPUs() && !w.asks {
		intent.Warnings = append(intent.Warnings, classSetting.String()+" allocates no CPUs without "+asksSetting.String())
	}
	if BatchRequest(pod) > 0 && intent.Class != qos.BE {
		intent.Warnings = append(intent.Warnings, fmt.Sprintf("requests of %s have no effect without %s", BatchCPU, setting{true, QoSLabel, string(qos.BE)}))
	}
	if w.asks && intent.Class == qos.BE {
		return Intent{}, contradiction(w.asking, classSetting, "batch pods run in the shared CPUs; remove one of the two")
	}
	if intent.Burst.Mode == burst.None {
		burstSetting = setting{}
	}
	for _, s := range []setting{burstSetting, periodSetting} {
		if s != (setting{}) && !hasLimit(pod) {
			intent.Warnings = append(intent.Warnings, s.name()+" has no effect, since neither the pod nor a container has limits.cpu")
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

// hasLimit reports whether the pod or any of its containers has a CPU limit.
func hasLimit(pod *corev1.Pod) bool {
	return pod.Spec.Resources != nil && !pod.Spec.Resources.Limits.Cpu().IsZero() ||
		slices.ContainsFunc(members(pod), func(m member) bool { return !m.Resources.Limits.Cpu().IsZero() })
}

// PolicyNone is the value of cpu-policy that leaves a pod in the shared CPUs. It occurs in
// annotations only and is never passed to package placement.
const PolicyNone placement.Policy = "none"

// CPUSetSchedulerKeys returns the annotation keys of cpuset-scheduler, including aliases.
func CPUSetSchedulerKeys() []string { return []string{CPUSetSchedulerAnnotation, "cpuset-scheduler"} }

// CPUPolicyKeys returns the annotation keys of the CPU policy, including aliases.
func CPUPolicyKeys() []string { return []string{CPUPolicyAnnotation, "cpu-policy"} }

// QoSKeys returns the label keys of the class, including aliases.
func QoSKeys() []string {
	return []string{QoSLabel, "koordinator.sh/qosClass", "alibabacloud.com/qosClass"}
}

func schedulerAliases() []alias[string] {
	return annotation(oneOf("true", "false"), CPUSetSchedulerKeys()...)
}

func policyAliases() []alias[placement.Policy] {
	return annotation(oneOf(placement.Static, placement.StaticBurst, PolicyNone), CPUPolicyKeys()...)
}

func fullCoresAliases() []alias[placement.FullCores] {
	return annotation(oneOf(placement.FullCoresPreferred, placement.FullCoresRequired), FullCoresAnnotation)
}

func moveAliases() []alias[string] { return annotation(oneOf("true", "false"), MoveAnnotation) }

// placementSettings are the settings about placement.
type placementSettings struct {
	asks      bool
	asking    setting // the setting that asks for CPUs
	policy    placement.Policy
	fullCores placement.FullCores
	mayMove   bool
	warnings  []string
}

// parsePlacement parses the settings about placement. Policy and full-cores are only checked on
// pods that ask for CPUs.
func parsePlacement(pod *corev1.Pod) (placementSettings, error) {
	w := placementSettings{policy: placement.Static, fullCores: placement.FullCoresPreferred}
	value, asking, err := lookUp(pod, schedulerAliases())
	if err != nil {
		return w, err
	}
	policy, policySetting, policyErr := lookUp(pod, policyAliases())
	full, fullSetting, fullErr := lookUp(pod, fullCoresAliases())
	if value != "true" {
		for _, idle := range []setting{policySetting, fullSetting} {
			if idle != (setting{}) && idle.Value != string(PolicyNone) {
				w.warnings = append(w.warnings, idle.String()+" has no effect without "+asksSetting.String())
			}
		}
		if pod.Annotations[koordinatorSpec] != "" {
			w.warnings = append(w.warnings, fmt.Sprintf("annotation %s gives no CPUs of its own without %s", koordinatorSpec, asksSetting))
		}
		return w, nil
	}
	if policyErr != nil {
		return w, policyErr
	}
	if fullErr != nil {
		return w, fullErr
	}
	move, moveSetting, err := lookUp(pod, moveAliases())
	if err != nil {
		return w, err
	}
	if policySetting != (setting{}) {
		w.policy = policy
	}
	if fullSetting != (setting{}) {
		w.fullCores = full
	}
	if w.policy == placement.StaticBurst && w.fullCores == placement.FullCoresRequired {
		w.warnings = append(w.warnings, fullSetting.String()+" has no effect with "+policySetting.String())
	}
	if w.policy == placement.StaticBurst && move == "false" { // its CPUs follow its load
		w.warnings = append(w.warnings, moveSetting.String()+" has no effect with "+policySetting.String())
	}
	w.asks, w.asking, w.mayMove = w.policy != PolicyNone, asking, move != "false"
	return w, nil
}

// DefaultMinSharedCPUs is the default of the scheduler's minSharedCPUs and the agent's
// --min-shared-cpus, which must be equal: the minimum number of shared CPUs of every node.
const DefaultMinSharedCPUs = 1

// TierOf returns the pod's QoS class, which the API server computes at creation and never changes.
func TierOf(pod *corev1.Pod) qos.Tier {
	switch pod.Status.QOSClass {
	case corev1.PodQOSGuaranteed:
		return qos.Guaranteed
	case corev1.PodQOSBestEffort:
		return qos.BestEffort
	}
	return qos.Burstable
}

// parseClass parses the class of a pod.
func parseClass(pod *corev1.Pod) (qos.Class, setting, error) {
	aliases := []alias[qos.Class]{{true, QoSLabel, oneOf(qos.LS, qos.BE)}}
	for _, key := range QoSKeys()[1:] {
		aliases = append(aliases, alias[qos.Class]{true, key, parseForeignClass})
	}
	return lookUp(pod, aliases)
}

// koordinatorSpec is the annotation by which pods choose how Koordinator binds them to CPUs.
const koordinatorSpec = "scheduling.koordinator.sh/resource-spec"

// asksSetting is the annotation by which a pod asks for CPUs.
var asksSetting = setting{Key: CPUSetSchedulerAnnotation, Value: "true"}

// asksForCPUs reports whether a class stands for CPUs of its own in Koordinator.
func (s setting) asksForCPUs() bool { return s.Label && (s.Value == "LSE" || s.Value == "LSR") }

// parseForeignClass parses Koordinator's classes. LSE and LSR are LS pods with exclusive CPUs,
// which Pinfold's pods request by another annotation; SYSTEM is for Koordinator's own daemons.
func parseForeignClass(text string) (qos.Class, error) {
	switch text {
	case "LS", "LSE", "LSR":
		return qos.LS, nil
	case "BE":
		return qos.BE, nil
	case "SYSTEM":
		return "", nil
	}
	return "", fmt.Errorf(`it must be "LSE", "LSR", "LS", "BE" or "SYSTEM"`)
}

// parsePeriod parses the CFS period of a pod, 0 if it sets none.
func parsePeriod(pod *corev1.Pod) (time.Duration, setting, error) {
	return lookUp(pod, annotation(readPeriod, CPUPeriodAnnotation))
}

func readPeriod(text string) (time.Duration, error) {
	period, err := time.ParseDuration(text)
	if err != nil {
		period = 0
	}
	return period, checkPeriod(period)
}

func checkPeriod(period time.Duration) error {
	if period < bandwidth.MinPeriod || period > bandwidth.MaxPeriod {
		return errors.New(`it must be a duration from "1ms" to "1s", such as "20ms"`)
	}
	if period%time.Microsecond != 0 {
		return errors.New("it must be a whole number of microseconds, as the kernel counts")
	}
	return nil
}
