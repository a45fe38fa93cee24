package api

import (
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
)

// VersionAnnotation is on the leases of agents and schedulers, and kubernetesAnnotation on those of
// schedulers. Their values are the holder of the lease, a space, and that program's version of
// Pinfold, or the minor version of Kubernetes as which it runs. The holder is part of them because
// other programs, such as a stock kube-scheduler, keep the annotations when they take the lease.
const (
	VersionAnnotation    = "pinfold.dev/version"
	kubernetesAnnotation = "pinfold.dev/kubernetes-version"
)

// SetVersion records the version of the program that holds a lease.
func SetVersion(lease *coordinationv1.Lease, version string) {
	record(lease, VersionAnnotation, version)
}

// SetKubernetesVersion records the version of Kubernetes as which the holder of a lease runs.
func SetKubernetesVersion(lease *coordinationv1.Lease, version string) {
	record(lease, kubernetesAnnotation, version)
}

// VersionOf returns the version of the program that holds a lease. It returns "" if that program
// has not recorded any: it is not part of Pinfold, or older than the annotation.
func VersionOf(lease *coordinationv1.Lease) string { return recorded(lease, VersionAnnotation) }

// KubernetesVersionOf returns the version of Kubernetes as which the holder of a lease runs, or ""
// as [VersionOf].
func KubernetesVersionOf(lease *coordinationv1.Lease) string {
	return recorded(lease, kubernetesAnnotation)
}

func record(lease *coordinationv1.Lease, annotation, version string) {
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[annotation] = ptr.Deref(lease.Spec.HolderIdentity, "") + " " + version
}

func recorded(lease *coordinationv1.Lease, annotation string) string {
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	version, ok := strings.CutPrefix(lease.Annotations[annotation], holder+" ")
	if !ok || holder == "" {
		return ""
	}
	return version
}
