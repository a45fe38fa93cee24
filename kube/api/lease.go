package api

import (
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
)

// VersionAnnotation is on the leases of agents and schedulers. Its value is the holder of the lease
// and that program's version of Pinfold, with a space between them. The holder is part of it
// because other programs, such as a stock kube-scheduler, keep the annotation when they take the
// lease.
const VersionAnnotation = "pinfold.dev/version"

// SetVersion records the version of the program that holds a lease.
func SetVersion(lease *coordinationv1.Lease, version string) {
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[VersionAnnotation] = ptr.Deref(lease.Spec.HolderIdentity, "") + " " + version
}

// VersionOf returns the version of the program that holds a lease. It returns "" if that program
// has not recorded any: it is not part of Pinfold, or older than the annotation.
func VersionOf(lease *coordinationv1.Lease) string {
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	version, ok := strings.CutPrefix(lease.Annotations[VersionAnnotation], holder+" ")
	if !ok || holder == "" {
		return ""
	}
	return version
}
