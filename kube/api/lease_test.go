package api

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// TestLeaseVersion records the version of a lease's holder, and has other programs take the lease.
func TestLeaseVersion(t *testing.T) {
	lease := &coordinationv1.Lease{}
	if got := VersionOf(lease); got != "" {
		t.Errorf("a new lease has version %q", got)
	}
	lease.Spec.HolderIdentity = new("a_1")
	SetVersion(lease, "v1.2.3")
	if got := VersionOf(lease); got != "v1.2.3" {
		t.Errorf("version %q, want v1.2.3", got)
	}
	for _, other := range []string{"a_2", "a", ""} {
		lease.Spec.HolderIdentity = new(other)
		if got := VersionOf(lease); got != "" {
			t.Errorf("holder %q has version %q of another one", other, got)
		}
	}
	SetVersion(lease, "v1.2.4")
	if got := VersionOf(lease); got != "" {
		t.Errorf("a lease without a holder has version %q", got)
	}
}
