package command

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"pinfold.dev/pinfold/kube/api"
)

// recordVersion makes an election write this program's version, and that of Kubernetes as which it
// runs, to its lease with each renewal; see [api.VersionAnnotation]. Locks that are not leases are
// left alone.
func recordVersion(lock resourcelock.Interface, version, kubernetes string) {
	if lease, ok := lock.(*resourcelock.LeaseLock); ok && version != "" {
		lease.Client = versionedLeases{lease.Client, version, kubernetes}
	}
}

// versionedLeases writes the versions of this program to every lease that it creates or updates.
type versionedLeases struct {
	coordinationclient.LeasesGetter
	version, kubernetes string
}

// Leases implements [coordinationclient.LeasesGetter].
func (v versionedLeases) Leases(namespace string) coordinationclient.LeaseInterface {
	return versionedLease{v.LeasesGetter.Leases(namespace), v}
}

func (v versionedLeases) record(lease *coordinationv1.Lease) {
	api.SetVersion(lease, v.version)
	api.SetKubernetesVersion(lease, v.kubernetes)
}

type versionedLease struct {
	coordinationclient.LeaseInterface
	versions versionedLeases
}

// Create implements [coordinationclient.LeaseInterface].
func (v versionedLease) Create(ctx context.Context, lease *coordinationv1.Lease, options metav1.CreateOptions) (*coordinationv1.Lease, error) {
	v.versions.record(lease)
	return v.LeaseInterface.Create(ctx, lease, options)
}

// Update implements [coordinationclient.LeaseInterface].
func (v versionedLease) Update(ctx context.Context, lease *coordinationv1.Lease, options metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	v.versions.record(lease)
	return v.LeaseInterface.Update(ctx, lease, options)
}
