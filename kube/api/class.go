package api

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/nodeplan"
)

// TierOf returns the pod's QoS class, which the API server computes at creation and never changes.
func TierOf(pod *corev1.Pod) nodeplan.Tier {
	switch pod.Status.QOSClass {
	case corev1.PodQOSGuaranteed:
		return nodeplan.Guaranteed
	case corev1.PodQOSBestEffort:
		return nodeplan.BestEffort
	}
	return nodeplan.Burstable
}

func classSpellings() []spelling[nodeplan.Class] {
	return []spelling[nodeplan.Class]{
		{true, QoSLabel, oneOf(nodeplan.LS, nodeplan.BE)},
		{true, "koordinator.sh/qosClass", parseForeignClass},
		{true, "alibabacloud.com/qosClass", parseForeignClass},
	}
}

// parseForeignClass translates Koordinator's classes. Its LSE and LSR are LS pods with CPUs of
// their own, which is asked for in another word here; SYSTEM is for its own daemons.
func parseForeignClass(text string) (nodeplan.Class, error) {
	switch text {
	case "LS", "LSE", "LSR":
		return nodeplan.LS, nil
	case "BE":
		return nodeplan.BE, nil
	case "SYSTEM":
		return "", nil
	}
	return "", fmt.Errorf(`it must be "LSE", "LSR", "LS", "BE" or "SYSTEM"`)
}

// parseClass reads the class of a pod.
func parseClass(pod *corev1.Pod) (nodeplan.Class, Word, error) { return look(pod, classSpellings()) }
