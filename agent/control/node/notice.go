package node

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Reasons of notices. Others are in package nodeplan, and beside what they are about.
const (
	// BadAllocation: a pod's allocation is invalid. The scheduler uses the same reason.
	BadAllocation = "CPUAllocationInvalid"
	// AboveCeiling: a pod asks for more than the administrator allows.
	AboveCeiling = "AboveCeiling"
	// UnknownKey: an annotation or label has no effect and may be misspelled.
	UnknownKey = "UnknownAnnotation"
)

// Notice is a message for users.
type Notice struct {
	// Pod is nil if the notice is about the node.
	Pod             *corev1.Pod
	Reason, Message string
}

// Notice returns a notice about the pod, which it names.
func (s *Pod) Notice(reason, message string) Notice {
	return Notice{s.Object, reason, fmt.Sprintf("pod %s: %s", s.Name(), message)}
}
