package scheduler

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/apis/core/validation"
)

// Reasons of the plugin's events.
const (
	// EventConflict is on the pod that loses a CPU to an earlier one.
	EventConflict = "CPUConflict"
	// EventOffline is on a pod some of whose CPUs are offline.
	EventOffline = "CPUOffline"
	// EventInvalid is on a pod whose annotation cannot be believed, or is missing.
	EventInvalid = "CPUAllocationInvalid"
	// EventIgnored is on a pod that bears words without effect.
	EventIgnored = "CPUWordIgnored"
)

// warn sends an event about a pod.
func warn(handle fwk.Handle, pod *corev1.Pod, reason, action, text string) {
	handle.EventRecorder().Eventf(pod, nil, corev1.EventTypeWarning, reason, action, "%s", shorten(text, validation.NoteLengthLimit))
}

// shorten cuts a text to a number of bytes. The API server refuses events that are
// longer, and values of annotations and lists of CPUs can be.
func shorten(text string, limit int) string {
	const mark = " ..."
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len(mark)], "") + mark
}
