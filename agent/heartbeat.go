package agent

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// leaseSeconds is the duration of the lease, as of the kubelet's. The scheduler judges by
// a time of its own.
const leaseSeconds = 40

// heartbeat renews the agent's lease as long as the agent does its work. By it the
// scheduler knows that what it decides for this node will be carried out.
type heartbeat struct {
	client          kubernetes.Interface
	namespace, name string
	// node is the UID of the Node object, nil until it has been read.
	node *atomic.Pointer[types.UID]
	// Of the engine nothing else is asked: a round that hangs holds its lock.
	worked *atomic.Int64
	now    func() time.Time
	log    *slog.Logger
	dedup  *logDedup
	// every is how often it renews, retry how soon again when that failed, and recent how
	// old the last round of the engine may be.
	every, retry, recent time.Duration
	// resumed is called when the lease was not renewed for so long that others may have
	// taken the agent for dead.
	resumed func()

	last    *coordinationv1.Lease // as it was written last
	renewed time.Time             // when that was
}

func (h *heartbeat) loop(ctx context.Context) {
	for ctx.Err() == nil {
		wait := h.every
		renewed, err := h.once(ctx)
		if !renewed {
			wait = min(h.every, h.retry)
		}
		if ctx.Err() == nil {
			h.dedup.warnOrClear(h.log, "lease", "cannot renew the agent's lease; pods that ask for CPUs will not be scheduled to this node", err)
		}
		sleep.For(ctx, wait)
	}
}

func (h *heartbeat) once(ctx context.Context) (renewed bool, err error) {
	last := h.worked.Load()
	if last == 0 {
		return false, nil // it has just started
	}
	if since := h.now().Sub(time.Unix(0, last)); since > h.recent {
		return false, fmt.Errorf("the last round ended %v ago", since.Round(time.Second))
	}
	node := h.node.Load()
	if node == nil {
		return false, nil // the Node has not been read, and no topology been published either
	}
	ctx, cancel := context.WithTimeout(ctx, h.every)
	defer cancel()
	if err := h.renew(ctx, *node); err != nil {
		h.last = nil
		return false, fmt.Errorf("lease %s/%s: %w", h.namespace, h.name, err)
	}
	now := time.Now() // monotonic, unlike a clock that is passed in
	if !h.renewed.IsZero() && now.Sub(h.renewed) > 2*h.every {
		h.resumed()
	}
	h.renewed = now
	return true, nil
}

// renew renews the lease, and creates it if it does not exist.
func (h *heartbeat) renew(ctx context.Context, node types.UID) (err error) {
	leases := h.client.CoordinationV1().Leases(h.namespace)
	lease := h.last
	if lease == nil {
		lease, err = leases.Get(ctx, h.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: h.name}}
			h.write(lease, node)
			h.last, err = leases.Create(ctx, lease, metav1.CreateOptions{})
			return err
		}
		if err != nil {
			return err
		}
	}
	lease = lease.DeepCopy()
	h.write(lease, node)
	h.last, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

func (h *heartbeat) write(lease *coordinationv1.Lease, node types.UID) {
	seconds, now := int32(leaseSeconds), metav1.NewMicroTime(h.now())
	lease.OwnerReferences = []metav1.OwnerReference{nodetopology.NodeReference(h.name, node)}
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &h.name, LeaseDurationSeconds: &seconds, RenewTime: &now}
}

func removeLease(ctx context.Context, o Options) error {
	if o.LeaseNamespace == "" {
		return nil
	}
	err := o.Client.CoordinationV1().Leases(o.LeaseNamespace).Delete(ctx, o.NodeName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete lease %s/%s: %w", o.LeaseNamespace, o.NodeName, err)
	}
	return nil
}
