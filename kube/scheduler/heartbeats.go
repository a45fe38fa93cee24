package scheduler

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"pinfold.dev/pinfold/internal/sleep"
)

// heartbeats knows since when agents have not renewed their leases. It goes by the time
// at which this scheduler saw a renewal, as kube-controller-manager does for nodes: the
// clocks of nodes may differ. Time in which it could see none does not count.
type heartbeats struct {
	namespace string
	grace     time.Duration // 0: no agent is ever taken for dead
	now       func() time.Time
	// changed is called for a node whose agent may have fallen silent, or has reported again.
	changed func(node string)

	mu    sync.Mutex
	beats map[string]*beat // by the name of the lease, which is the node's
	// ticked is when time was last seen to pass.
	ticked time.Time
	// blind is since when leases could not be followed, zero while they can be.
	blind time.Time
}

// beat is the last renewal of a lease.
type beat struct {
	renewed metav1.MicroTime // by the lease's own account; only compared for equality
	at      time.Time        // when it was seen
	silent  bool             // as told last
}

// heartbeatTick is how often it is looked for agents that have fallen silent.
const heartbeatTick = time.Second

func newHeartbeats(namespace string, grace time.Duration) *heartbeats {
	now := time.Now()
	return &heartbeats{namespace: namespace, grace: grace, now: time.Now, changed: func(string) {},
		ticked: now, blind: now, beats: map[string]*beat{}}
}

// follow has leases looked at until the context ends.
func (h *heartbeats) follow(ctx context.Context, client kubernetes.Interface) error {
	if h.grace == 0 {
		return nil
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(h.namespace),
		informers.WithTransform(func(obj any) (any, error) {
			if lease, ok := obj.(*coordinationv1.Lease); ok {
				lease.ManagedFields, lease.OwnerReferences = nil, nil
			}
			return obj, nil
		}))
	leases := factory.Coordination().V1().Leases().Informer()
	if err := leases.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		h.lost()
		if apierrors.IsForbidden(err) {
			klog.FromContext(ctx).Error(err, "Agents that fall silent are not noticed: the scheduler may not list and watch leases; "+
				"apply deploy/manifests/scheduler-rbac.yaml of Pinfold", "namespace", h.namespace)
			return
		}
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}); err != nil {
		return err
	}
	if _, err := leases.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { h.seen(obj) },
		UpdateFunc: func(_, obj any) { h.seen(obj) },
	}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), leases.HasSynced) {
			h.mu.Lock()
			h.regain()
			h.mu.Unlock()
		}
		for sleep.For(ctx, heartbeatTick) {
			h.tick()
		}
	}()
	return nil
}

// lost is called when leases cannot be listed or watched.
func (h *heartbeats) lost() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.blind.IsZero() {
		h.blind = h.now()
	}
}

// regain is called when they can be again.
func (h *heartbeats) regain() {
	if !h.blind.IsZero() {
		h.forgive(h.now().Sub(h.blind))
		h.blind = time.Time{}
	}
}

// forgive lets a time not count.
func (h *heartbeats) forgive(d time.Duration) {
	for _, b := range h.beats {
		b.at = b.at.Add(d)
	}
}

// seen takes a version of a lease.
func (h *heartbeats) seen(obj any) {
	lease, ok := obj.(*coordinationv1.Lease)
	if !ok || lease.Spec.RenewTime == nil {
		return
	}
	h.mu.Lock()
	h.regain()
	b := h.beats[lease.Name]
	if b == nil {
		b = &beat{}
		h.beats[lease.Name] = b
	}
	if b.renewed.Equal(lease.Spec.RenewTime) {
		h.mu.Unlock()
		return
	}
	b.renewed, b.at = *lease.Spec.RenewTime, h.now()
	was := b.silent
	b.silent = false
	h.mu.Unlock()
	if was {
		h.changed(lease.Name)
	}
}

// tick looks for agents that have fallen silent.
func (h *heartbeats) tick() {
	h.mu.Lock()
	now := h.now()
	if late := now.Sub(h.ticked); late > 5*heartbeatTick {
		h.forgive(late) // this process was stopped, and the others were not
	}
	h.ticked = now
	var silent []string
	if h.blind.IsZero() {
		for node, b := range h.beats {
			if !b.silent && now.Sub(b.at) > h.grace {
				b.silent = true
				silent = append(silent, node)
			}
		}
	}
	h.mu.Unlock()
	for _, node := range silent {
		h.changed(node)
	}
}

// silence returns since when the agent of a node that should renew this lease has been
// silent, zero when it is not.
func (h *heartbeats) silence(node, lease string) time.Time {
	if h.grace == 0 || lease == "" {
		return time.Time{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.beats[node]
	if b == nil { // from now on it has to show itself
		b = &beat{at: h.now()}
		h.beats[node] = b
	}
	if !b.silent {
		return time.Time{}
	}
	return b.at
}

// forget drops a node that is gone.
func (h *heartbeats) forget(node string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.beats, node)
}
