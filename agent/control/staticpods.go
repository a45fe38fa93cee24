package control

import (
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/ledger"
)

// The kubelet's annotations on a mirror pod, the API server's copy of a static pod: a mark, and the
// id of the static pod in the kubelet and in the names of cgroups (pkg/kubelet/types/pod_update.go
// of Kubernetes 1.37).
const (
	configMirror = "kubernetes.io/config.mirror"
	configHash   = "kubernetes.io/config.hash"
)

// NotAStaticPod is the reason of a notice about a pod that claims to be the copy of a static pod
// that the kubelet does not run.
const NotAStaticPod = "NotAStaticPod"

// mirrored returns the id of the static pod that a pod claims to be the copy of, or "". The claim
// proves nothing: everybody who may create pods can write these annotations.
func mirrored(object *corev1.Pod) ledger.PodID {
	hash := object.Annotations[configHash]
	// The kubelet's ids are hashes. UIDs from the API server contain dashes.
	if _, mirror := object.Annotations[configMirror]; mirror && !strings.Contains(hash, "-") {
		return ledger.PodID(hash)
	}
	return ""
}

// groupID returns the id in the name of the pod's cgroup. A mirror pod has the cgroup of its static
// pod if the kubelet is known to run a static pod of that id, namespace and name. The API server
// never has two pods of one name.
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
	c.static = map[ledger.PodID]types.NamespacedName{}
	maps.Copy(c.static, pods)
	for i := range c.pods {
		s := &c.pods[i]
		s.plan.ID = c.groupID(s.object)
		s.denied = s.unproven()
	}
}

// AddSandbox records the name of a pod for which the runtime has a sandbox. Id and name come from
// the kubelet; the pod's owner cannot choose them.
func (c *Control) AddSandbox(id ledger.PodID, name types.NamespacedName) {
	if strings.Contains(string(id), "-") || c.static[id] == name {
		return // not a static pod, or already known
	}
	c.static[id] = name
	for i := range c.pods {
		c.pods[i].plan.ID = c.groupID(c.pods[i].object)
	}
}

// NeedsStaticPods reports whether the kubelet must be asked for its static pods, because a pod
// claims to be the copy of an unknown one.
func (c *Control) NeedsStaticPods() bool {
	for i := range c.pods {
		if s := &c.pods[i]; s.unproven() && !s.denied {
			return true
		}
	}
	return false
}

// unproven reports whether the pod claims to be the copy of a static pod but does not have its
// cgroup.
func (s *podState) unproven() bool {
	id := mirrored(s.object)
	return id != "" && s.plan.ID != id
}

// notStaticNotes returns the notes about pods whose claim to be a mirror pod is false. They are not
// problems, because the claim harms no other pod.
func (c *Control) notStaticNotes() (notes []Notice) {
	for i := range c.pods {
		if s := &c.pods[i]; s.denied && s.unproven() {
			notes = append(notes, Notice{s.object, NotAStaticPod, fmt.Sprintf("pod %s has the annotations of a mirror pod, but the "+
				"kubelet runs no such static pod: the pod gets nothing of cgroup %s", s.name(), mirrored(s.object))})
		}
	}
	return notes
}
