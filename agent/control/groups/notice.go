package groups

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/agent/control/pods"
)

// Reasons of notices. Others are in package nodeplan.
const (
	// AboveCeiling: a pod asks for more than the administrator allows.
	AboveCeiling = "AboveCeiling"
	// UnknownKey: an annotation or label has no effect and may be misspelled.
	UnknownKey = "UnknownAnnotation"
	// Ignored: an annotation or label cannot be read, so none of the pod's has an effect, or it has none
	// together with the others.
	Ignored = "CPUAnnotationIgnored"
	// Postponed: changed annotations have no effect yet.
	Postponed = "ChangePostponed"
	// NotAStaticPod: a pod claims to be the copy of a static pod that the kubelet does not run.
	NotAStaticPod = "NotAStaticPod"
	// CPUsUnavailable: a container does not run on all CPUs that its cgroup has. Version 2 accepts any
	// CPUs, and uses those that are online, in the groups above, and in no partition of another group.
	CPUsUnavailable = "CPUsUnavailable"
	// NotEnforced: a container with CPUs of its own does not run in its cgroup.
	NotEnforced = "CPUsNotEnforced"
	// Pinned: the threads of a container run on a part of its CPUs only.
	Pinned = "ThreadsPinned"
	// NotPartitioned: a container could not become a partition.
	NotPartitioned = "NotPartitioned"
	// NotGiven: the agent could not allocate the CPUs that a pod asks for.
	NotGiven = "CPUsNotGiven"
	// GivenBack: a pod can never start, so a resource claim of it serves others.
	GivenBack = "ClaimGivenBack"
	// Lost: a pod has lost its CPUs to another one, or because the node does not have them any more.
	Lost = "CPUsLost"
	// Withheld: pods may not use all CPUs of the machine.
	Withheld = "CPUsWithheld"
	// Throttled: a group above pods has a quota below the CPUs that these may use.
	Throttled = "PodsThrottled"
	// DamagedState: what an agent has saved is lost, old, or of another node.
	DamagedState = "DamagedState"
	// Moved: a running pod was moved to better CPUs. This is not a problem.
	Moved = "CPUsMoved"
	// UnknownGroup: a cgroup in a pod's cgroup has a name that is not a container's.
	UnknownGroup = "UnknownGroup"
	// IdleTier: another program has given idle priority to the tier of batch pods.
	IdleTier = "IdleTier"
	// LackingMechanism: the machine lacks a mechanism that is to put batch pods behind all others.
	LackingMechanism = "LackingMechanism"
	// DamagedTopology: files of the kernel about the machine are missing, damaged or contradictory.
	DamagedTopology = "DamagedTopology"
	// CannotWrite: the settings of a cgroup could not be written.
	CannotWrite = "CannotWrite"
	// CannotEnforce: no settings can be enforced on the node.
	CannotEnforce = "CannotEnforce"
	// CannotSave: what is allocated cannot be saved, so no pod gets CPUs.
	CannotSave = "CannotSave"
	// ClaimsNotServed: no pod gets CPUs by resource claims.
	ClaimsNotServed = "ClaimsNotServed"
	// Impaired: the agent works, except for what the message says.
	Impaired = "AgentImpaired"
)

// Notice is a message for users.
type Notice struct {
	// Pod is nil if the notice is about the node.
	Pod             *corev1.Pod
	Reason, Message string
}

// IsNews reports whether nothing is wrong.
func (n Notice) IsNews() bool { return n.Reason == Moved || n.Reason == Pinned }

// Notices are what users should know.
type Notices struct {
	// Problems say what is wrong, Notes what is done differently than requested, and News what the authors
	// of pods should know about their annotations and CPUs.
	Problems, Notes, News []Notice
}

// Problem adds a problem of a pod, or of the node if the pod is nil.
func (n *Notices) Problem(of *pods.Pod, reason, format string, args ...any) {
	n.Problems = append(n.Problems, newNotice(of, reason, format, args))
}

// Note adds a note about a pod, or about the node if the pod is nil.
func (n *Notices) Note(of *pods.Pod, reason, format string, args ...any) {
	n.Notes = append(n.Notes, newNotice(of, reason, format, args))
}

// Tell adds news for the author of a pod.
func (n *Notices) Tell(of *pods.Pod, reason, format string, args ...any) {
	n.News = append(n.News, newNotice(of, reason, "pod "+of.Name()+": "+format, args))
}

func newNotice(of *pods.Pod, reason, format string, args []any) Notice {
	n := Notice{Reason: reason, Message: fmt.Sprintf(format, args...)}
	if of != nil {
		n.Pod = of.Object
	}
	return n
}
