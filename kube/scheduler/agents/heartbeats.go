package agents

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
	"k8s.io/utils/ptr"

	"pinfold.dev/pinfold/internal/sleep"
)

// heartbeats tracks which agents are silent: those that have not renewed their leases for longer
// than a grace period. It uses the times at which this scheduler saw the renewals, as
// kube-controller-manager does for nodes, because the clocks of nodes may differ. Time in which it
// could not see renewals does not count.
type heartbeats struct {
	namespace string
	grace     time.Duration // 0: no agent ever counts as silent
	now       func() time.Time
	// changed is called for a node whose agent has become silent or reports again.
	changed func(node string)

	mu     sync.Mutex
	beats  map[string]*beat // by the name of the lease, which is the node's
	ticked time.Time        // the latest tick
	// blind is when the scheduler lost sight of the leases, zero while it can watch them.
	blind time.Time
}

// beat is the latest renewal of a lease.
type beat struct {
	renewed metav1.MicroTime // as written in the lease; only compared for equality
	at      time.Time        // when it was seen
	silent  bool             // as last passed to changed
}

// heartbeatTick is the interval of the checks for silent agents.
const heartbeatTick = time.Second

func newHeartbeats(namespace string, grace time.Duration, now func() time.Time) *heartbeats {
	return &heartbeats{namespace: namespace, grace: grace, now: now, changed: func(string) {},
		ticked: now(), blind: now(), beats: map[string]*beat{}}
}

// FollowLeases watches the agents' leases until the context ends. It calls changed with the report
// of a node whose agent has become silent or renews its lease again.
func (r *Reports) FollowLeases(ctx context.Context, client kubernetes.Interface, changed func(*Report)) error {
	h := r.beats
	if h.grace == 0 {
		return nil
	}
	h.changed = func(node string) {
		if report := r.judge(node); report != nil {
			changed(report)
		}
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
			klog.FromContext(ctx).Error(err, "Silent agents are not detected: the scheduler may not list and watch leases; "+
				"install its role in this namespace with Pinfold's chart or manifests (deploy)", "namespace", h.namespace)
			return
		}
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}); err != nil {
		return err
	}
	seen := func(obj any) {
		if lease, ok := obj.(*coordinationv1.Lease); ok {
			r.Renewed(lease)
		}
	}
	handlers := cache.ResourceEventHandlerFuncs{AddFunc: seen, UpdateFunc: func(_, now any) { seen(now) }}
	if _, err := leases.AddEventHandler(handlers); err != nil {
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

// Renewed handles a version of a lease.
func (r *Reports) Renewed(lease *coordinationv1.Lease) { r.beats.seen(lease) }

// Tick looks for agents that have become silent. FollowLeases calls it every second.
func (r *Reports) Tick() { r.beats.tick() }

// SilentFor returns how long ago a silent agent renewed its lease.
func (r *Reports) SilentFor(report *Report) time.Duration { return r.beats.now().Sub(report.Silent) }

// lost records that leases cannot be listed or watched.
func (h *heartbeats) lost() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.blind.IsZero() {
		h.blind = h.now()
	}
}

// regain records that leases can be watched again. The caller holds h.mu.
func (h *heartbeats) regain() {
	if !h.blind.IsZero() {
		h.forgive(h.now().Sub(h.blind))
		h.blind = time.Time{}
	}
}

// forgive excludes a time from all silences. A renewal that was seen since then counts from when it
// was seen, at the latest from now. The caller holds h.mu.
func (h *heartbeats) forgive(d time.Duration) {
	now := h.now()
	for _, b := range h.beats {
		if b.at = b.at.Add(d); b.at.After(now) {
			b.at = now
		}
	}
}

// seen handles a version of a lease.
func (h *heartbeats) seen(lease *coordinationv1.Lease) {
	if lease.Spec.RenewTime == nil || ptr.Deref(lease.Spec.HolderIdentity, "") != lease.Name {
		return // not an agent's renewal
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

// tick detects agents that have become silent.
func (h *heartbeats) tick() {
	h.mu.Lock()
	now := h.now()
	if late := now.Sub(h.ticked); late > 5*heartbeatTick {
		h.forgive(late) // this process was stopped; the agents were not
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

// silence returns the time of the last renewal if the node's agent is silent, otherwise zero. The
// first call for a node starts its grace period.
func (h *heartbeats) silence(node, lease string) time.Time {
	if h.grace == 0 || lease == "" {
		return time.Time{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.beats[node]
	if b == nil {
		b = &beat{at: h.now()}
		h.beats[node] = b
	}
	if !b.silent {
		return time.Time{}
	}
	return b.at
}

// forget drops a deleted node.
func (h *heartbeats) forget(node string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.beats, node)
}
