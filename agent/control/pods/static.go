package pods

import (
	"maps"
	"slices"
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
func (p *Pods) groupID(object *corev1.Pod) ledger.PodID {
	if id := mirrored(object); id != "" && p.static[id] == nameOf(object) {
		return id
	}
	return ledger.PodID(object.UID)
}

func nameOf(object *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
}

// SetStaticPods sets the static pods that the kubelet runs, by the kubelet's ids.
func (p *Pods) SetStaticPods(pods map[ledger.PodID]types.NamespacedName) {
	p.static = map[ledger.PodID]types.NamespacedName{}
	maps.Copy(p.static, pods)
	for i := range p.All {
		s := &p.All[i]
		s.Plan.ID = p.groupID(s.Object)
		s.denied = s.unproven()
	}
}

// AddSandbox records the name of a pod for which the runtime has a sandbox. Id and name come from
// the kubelet; the pod's owner cannot choose them.
func (p *Pods) AddSandbox(id ledger.PodID, name types.NamespacedName) {
	if strings.Contains(string(id), "-") || p.static[id] == name {
		return // not a static pod, or already known
	}
	p.static[id] = name
	for i := range p.All {
		p.All[i].Plan.ID = p.groupID(p.All[i].Object)
	}
}

// NeedsStaticPods reports whether the kubelet must be asked for its static pods, because a pod
// claims to be the copy of an unknown one.
func (p *Pods) NeedsStaticPods() bool {
	return slices.ContainsFunc(p.All, func(s Pod) bool { return s.unproven() && !s.denied })
}

// Awaits reports whether such a pod asks for CPUs, and so may have some.
func (p *Pods) Awaits() bool {
	return slices.ContainsFunc(p.All, func(s Pod) bool { return s.unproven() && !s.denied && len(s.ask.Containers) > 0 })
}

// unproven reports whether the pod claims to be the copy of a static pod but does not have its
// cgroup.
func (s *Pod) unproven() bool {
	id := mirrored(s.Object)
	return id != "" && s.Plan.ID != id
}

// Forged returns the id of the static pod that the pod falsely claims to be the copy of, or "".
func (s *Pod) Forged() ledger.PodID {
	if s.denied && s.unproven() {
		return mirrored(s.Object)
	}
	return ""
}

// CanBeForged reports whether everybody who may write pods can have written the pod: it is not
// known to be the copy of a static pod, whose authors can write files of the node.
func (p *Pods) CanBeForged(object *corev1.Pod) bool {
	return p.groupID(object) == ledger.PodID(object.UID)
}
