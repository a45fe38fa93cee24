package control

import (
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/ledger"
)

// The kubelet's annotations on a mirror pod, the API server's copy of a static pod: its
// mark, and the id by which the kubelet, and so the control groups, know the static pod
// (pkg/kubelet/types/pod_update.go of Kubernetes 1.37).
const (
	configMirror = "kubernetes.io/config.mirror"
	configHash   = "kubernetes.io/config.hash"
)

// NotStaticPod is the reason of a notice about a pod that claims to be the copy of a static pod
// that the kubelet does not run.
const NotStaticPod = "NotAStaticPod"

// mirrored returns the id of the static pod that a pod claims to be the copy of, "" when
// it claims nothing. The claim proves nothing: whoever may create pods may write it.
func mirrored(object *corev1.Pod) ledger.PodID {
	hash := object.Annotations[configHash]
	// The kubelet's ids are hashes. UIDs, which the API server gives, have dashes.
	if _, mirror := object.Annotations[configMirror]; mirror && !strings.Contains(hash, "-") {
		return ledger.PodID(hash)
	}
	return ""
}

// groupID is the id that the pod's control group bears. A mirror pod has the group of its
// static pod when the kubelet is known to run that one under the same namespace and name,
// which no two pods of the API server share.
func (c *Control) groupID(object *corev1.Pod) ledger.PodID {
	if id := mirrored(object); id != "" && c.static[id] == nameOf(object) {
		return id
	}
	return ledger.PodID(object.UID)
}

func nameOf(object *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
}

// SetStaticPods sets the static pods that the kubelet runs, by the kubelet's ids.
func (c *Control) SetStaticPods(pods map[ledger.PodID]types.NamespacedName) {
	c.static = maps.Clone(pods)
	if c.static == nil {
		c.static = map[ledger.PodID]types.NamespacedName{}
	}
	for i := range c.pods {
		s := &c.pods[i]
		s.plan.ID = c.groupID(s.object)
		s.denied = s.unproven()
	}
}

// Sandbox records the name of a pod for which the runtime has a sandbox. Id and name come from the
// kubelet; the pod's owner cannot choose them.
func (c *Control) Sandbox(id ledger.PodID, name types.NamespacedName) {
	if strings.Contains(string(id), "-") || c.static[id] == name {
		return // not a static pod, or known
	}
	c.static[id] = name
	for i := range c.pods {
		c.pods[i].plan.ID = c.groupID(c.pods[i].object)
	}
}

// AwaitsStaticPods reports whether the kubelet must be asked for its static pods, because a pod
// claims to be the copy of an unknown one.
func (c *Control) AwaitsStaticPods() bool {
	for i := range c.pods {
		if s := &c.pods[i]; s.unproven() && !s.denied {
			return true
		}
	}
	return false
}

// unproven reports whether the pod claims to be the copy of a static pod and does not have
// its group.
func (s *podState) unproven() bool {
	id := mirrored(s.object)
	return id != "" && s.plan.ID != id
}

// notStatic are the notices about pods that claim to be what they are not. They are notes:
// no pod loses anything by the claim, and a user must not be able to turn the node's
// condition.
func (c *Control) notStatic() (notes []Notice) {
	for i := range c.pods {
		if s := &c.pods[i]; s.denied && s.unproven() {
			notes = append(notes, Notice{s.object, NotStaticPod, fmt.Sprintf("pod %s has the annotations of a mirror pod, and the "+
				"kubelet runs no such static pod: it is given nothing of group %s", nameOf(s.object), mirrored(s.object))})
		}
	}
	return notes
}
