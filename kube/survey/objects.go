package survey

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// Objects are the objects of a cluster, or of one node, that concern Pinfold.
type Objects struct {
	// Time is the API server's when it returned the leases.
	Time time.Time
	// Node is the name of the node if only its objects were read.
	Node       string
	Nodes      []*corev1.Node
	Pods       []*corev1.Pod // that have not ended
	Topologies []Topology
	// Leases are those of agents and schedulers, and may contain others.
	Leases []*coordinationv1.Lease
	// DaemonSets and Deployments are those in the namespaces of Pinfold, and may contain others.
	DaemonSets  []*appsv1.DaemonSet
	Deployments []*appsv1.Deployment
	// LeaseNamespace is the namespace of the leases of agents.
	LeaseNamespace string
	// Unread contains the error for each kind that could not be read.
	Unread map[Kind]error
}

// Kind is a kind of object, by its name in the plural.
type Kind string

// The kinds of object.
const (
	Nodes      Kind = "nodes"
	Pods       Kind = "pods"
	Topologies Kind = nodetopology.Resource
	Leases     Kind = "leases"
	// Without these the report has a note, and is complete in the rest.
	DaemonSets  Kind = "daemonsets"
	Deployments Kind = "deployments"
)

// Topology is the NodeTopology of the node of this name.
type Topology struct {
	Name    string
	Created time.Time
	nodetopology.Decoded
}

// keep returns a copy of what the report needs of a pod, nil if it needs nothing. The rest of an
// object is often ten times as large.
func keep(pod *corev1.Pod) *corev1.Pod {
	if api.HasEnded(pod) {
		return nil
	}
	kept := &corev1.Pod{}
	kept.Name, kept.Namespace, kept.UID = pod.Name, pod.Namespace, pod.UID
	kept.CreationTimestamp = pod.CreationTimestamp
	kept.Labels, kept.Annotations = pod.Labels, pod.Annotations
	delete(kept.Annotations, corev1.LastAppliedConfigAnnotation)
	kept.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName, SchedulerName: pod.Spec.SchedulerName, Overhead: pod.Spec.Overhead,
		Resources: pod.Spec.Resources, Containers: keepContainers(pod.Spec.Containers), InitContainers: keepContainers(pod.Spec.InitContainers)}
	kept.Status = pod.Status
	kept.Status.ContainerStatuses = keepStatuses(pod.Status.ContainerStatuses)
	kept.Status.InitContainerStatuses = keepStatuses(pod.Status.InitContainerStatuses)
	kept.Status.EphemeralContainerStatuses, kept.Status.PodIPs, kept.Status.HostIPs = nil, nil, nil
	return kept
}

func keepContainers(all []corev1.Container) []corev1.Container {
	kept := make([]corev1.Container, len(all))
	for i := range all {
		kept[i] = corev1.Container{Name: all[i].Name, Resources: all[i].Resources, RestartPolicy: all[i].RestartPolicy}
	}
	return kept
}

func keepStatuses(all []corev1.ContainerStatus) []corev1.ContainerStatus {
	kept := make([]corev1.ContainerStatus, len(all))
	for i := range all {
		kept[i] = corev1.ContainerStatus{Name: all[i].Name, AllocatedResources: all[i].AllocatedResources, Resources: all[i].Resources}
		kept[i].State.Waiting = all[i].State.Waiting
	}
	return kept
}
