package agent

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"pinfold.dev/pinfold/internal/logdedup"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// Unless an interval is configured, a lease is renewed as often as the kubelet's, in a fleet so rarely
// that all agents together renew renewRate leases a second. The agent asks how many leases there are
// at its start, again after minRecount, because the fleet may be growing, and then ever less often,
// until it asks once in maxRecount. A renewal is valid for leaseFactor intervals, which the lease says.
const (
	minLeaseEvery = 10 * time.Second
	maxLeaseEvery = 2 * time.Minute
	renewRate     = 125
	minRecount    = time.Minute
	maxRecount    = 10 * time.Minute
	leaseFactor   = 4
)

// heartbeat renews the agent's lease while the agent works. It tells the scheduler that decisions
// for this node will be enforced.
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
	every   time.Duration         // between renewals
	count   time.Time             // when the leases are to be counted
	counts  wait.Backoff          // until they are to be counted again
}

func (h *heartbeat) loop(ctx context.Context) {
	retry := h.retries()
	for ctx.Err() == nil {
		pause := h.RetryAfter // until there is something to renew
		switch renewed, err := h.once(ctx); {
		case ctx.Err() != nil:
			return
		case err != nil:
			pause = min(retry.Step(), wait.Jitter(cmp.Or(h.every, minLeaseEvery), jitter)) // longer, the lease would end before the next attempt
			h.dedup.Warn("lease", "cannot renew the agent's lease; pods that ask for CPUs will not be scheduled to this node", err)
		case renewed:
			pause, retry = wait.Jitter(h.every, jitter), h.retries()
			h.dedup.Clear("lease")
		}
		sleep.For(ctx, pause)
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
	h.adapt(ctx)
	ctx, cancel := context.WithTimeout(ctx, min(h.every, minLeaseEvery))
	defer cancel()
	if err := h.renew(ctx, *node); err != nil {
		h.last = nil
		return false, fmt.Errorf("lease %s/%s: %w", h.LeaseNamespace, h.NodeName, err)
	}
	now := time.Now() // monotonic, unlike h.Now
	if !h.renewed.IsZero() && now.Sub(h.renewed) > 2*h.every {
		h.resumed()
	}
	h.renewed = now
	return true, nil
}

// adapt decides how often the lease is renewed. If the leases cannot be counted, that remains as it
// was.
func (h *heartbeat) adapt(ctx context.Context) {
	if h.LeaseEvery > 0 {
		h.every = h.LeaseEvery
		return
	}
	now := time.Now()
	if now.Before(h.count) {
		return
	}
	if h.count.IsZero() {
		h.counts = wait.Backoff{Duration: minRecount, Factor: 2, Jitter: jitter, Steps: math.MaxInt32, Cap: maxRecount}
	}
	h.count = now.Add(h.counts.Step())
	h.every = max(h.every, minLeaseEvery)
	ctx, cancel := context.WithTimeout(ctx, minLeaseEvery)
	defer cancel()
	page, err := h.Client.CoordinationV1().Leases(h.LeaseNamespace).List(ctx, metav1.ListOptions{Limit: 1})
	h.dedup.WarnOrClear("leases", "cannot count the agents' leases; this one is renewed as often as before", err)
	if err != nil {
		return
	}
	leases := int64(len(page.Items)) + ptr.Deref(page.RemainingItemCount, 0)
	h.every = min(max(time.Duration(leases)*time.Second/renewRate, minLeaseEvery), maxLeaseEvery)
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
	seconds, now := int32(math.Ceil(leaseFactor*h.every.Seconds())), metav1.NewMicroTime(h.Now())
	lease.OwnerReferences = []metav1.OwnerReference{nodetopology.NodeReference(h.NodeName, node)}
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &h.NodeName, LeaseDurationSeconds: &seconds, RenewTime: &now}
	api.SetVersion(lease, h.Version)
}
