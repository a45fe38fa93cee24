package api

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// QoS is the co-location class of a pod, "" when it has none.
type QoS string

const (
	// LatencySensitive pods come first when CPU time is short.
	LatencySensitive QoS = "LS"
	// BestEffort pods are batch work that gives way.
	BestEffort QoS = "BE"
)

func qosSpellings() []spelling[QoS] {
	return []spelling[QoS]{
		{true, QoSLabel, oneOf(LatencySensitive, BestEffort)},
		{true, "koordinator.sh/qosClass", parseForeignQoS},
		{true, "alibabacloud.com/qosClass", parseForeignQoS},
	}
}

// parseForeignQoS translates Koordinator's classes. Its LSE and LSR are LS pods with
// CPUs of their own, which is asked for in another word here; SYSTEM is for its
// own daemons.
func parseForeignQoS(text string) (QoS, error) {
	switch text {
	case "LS", "LSE", "LSR":
		return LatencySensitive, nil
	case "BE":
		return BestEffort, nil
	case "SYSTEM":
		return "", nil
	}
	return "", fmt.Errorf(`it must be "LSE", "LSR", "LS", "BE" or "SYSTEM"`)
}

// parseQoS reads the class of a pod.
func parseQoS(pod *corev1.Pod) (QoS, Word, error) { return look(pod, qosSpellings()) }
