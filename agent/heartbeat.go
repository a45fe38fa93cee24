package agent

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiwait "k8s.io/apimachinery/pkg/util/wait"

	"pinfold.dev/pinfold/internal/logdedup"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// renewals is how many renewals are due in the duration of a lease. The scheduler uses a duration of its
// own.
const renewals = 3

// renewalTimeout is the longest time for one renewal.
const renewalTimeout = 10 * time.Second

// heartbeat renews the agent's lease while the agent works. It tells the scheduler that decisions
// for this node will be enforced. The controller of k8s.io/component-helpers does not say when a
// renewal has succeeded again, and its requests have no deadline.
type heartbeat struct {
	Options
	// node is the UID of the Node object, nil until it has been read.
	node *atomic.Pointer[types.UID]
	// lastRound is rounds.lastRound. The engine's lock is not used, because a hanging round holds
	// it.
	lastRound *atomic.Int64
	dedup     *logdedup.Log
	// resumed is called after a gap in which the agent may have been considered dead.
	resumed func()

	last    *coordinationv1.Lease // as last written
	renewed time.Time             // when it was written
}

func (h *heartbeat) loop(ctx context.Context) {
	for ctx.Err() == nil {
		wait := h.LeaseEvery
		renewed, err := h.once(ctx)
		if !renewed {
			wait = apiwait.Jitter(min(h.LeaseEvery, h.RetryAfter), .5)
		}
		if ctx.Err() == nil {
			h.dedup.WarnOrClear("lease", "cannot renew the agent's lease; pods that ask for CPUs will not be scheduled to this node", err)
		}
		sleep.For(ctx, wait)
	}
}

// once renews the lease unless the agent has just started or its rounds hang.
func (h *heartbeat) once(ctx context.Context) (renewed bool, err error) {
	last := h.lastRound.Load()
	node := h.node.Load()
	if last == 0 {
		return false, nil // it has just started
	}
	if since := h.Now().Sub(time.Unix(0, last)); since > 2*h.Period {
		return false, fmt.Errorf("the last round ended %v ago", since.Round(time.Second))
	}
	if node == nil {
		return false, nil // the Node has not been read, so no topology has been published either
	}
	ctx, cancel := context.WithTimeout(ctx, min(h.LeaseEvery, renewalTimeout))
	defer cancel()
	if err := h.renew(ctx, *node); err != nil {
		h.last = nil
		if apierrors.IsConflict(err) {
			err = fmt.Errorf("another program writes it, perhaps the agent of another machine with this node's name: %w", err)
		}
		return false, fmt.Errorf("lease %s/%s: %w", h.LeaseNamespace, h.NodeName, err)
	}
	now := time.Now() // monotonic, unlike h.Now
	if !h.renewed.IsZero() && now.Sub(h.renewed) > 2*h.LeaseEvery {
		h.resumed()
	}
	h.renewed = now
	return true, nil
}

// renew renews the lease, and creates it if it does not exist.
func (h *heartbeat) renew(ctx context.Context, node types.UID) (err error) {
	leases := h.Client.CoordinationV1().Leases(h.LeaseNamespace)
	lease := h.last.DeepCopy()
	if lease == nil {
		lease, err = leases.Get(ctx, h.NodeName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: h.LeaseNamespace, Name: h.NodeName}}
			h.fill(lease, node)
			h.last, err = leases.Create(ctx, lease, metav1.CreateOptions{})
			return err
		}
		if err != nil {
			return err
		}
	}
	h.fill(lease, node)
	h.last, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

func (h *heartbeat) fill(lease *coordinationv1.Lease, node types.UID) {
	seconds, now := int32(max(1, (renewals*h.LeaseEvery).Seconds())), metav1.NewMicroTime(h.Now())
	lease.OwnerReferences = []metav1.OwnerReference{nodetopology.NodeReference(h.NodeName, node)}
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &h.NodeName, LeaseDurationSeconds: &seconds, RenewTime: &now}
	api.SetVersion(lease, h.Version)
}
