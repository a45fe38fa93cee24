package agents

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"pinfold.dev/pinfold/test/must"
)

// Time in which the API server refuses connections does not make agents silent: an informer then tries
// again without telling anybody.
func TestRefusedConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const grace = 40 * time.Second
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "n1"}, Spec: coordinationv1.LeaseSpec{RenewTime: ptr.To(metav1.NowMicro())}}
		client := fake.NewClientset(lease)
		var away atomic.Bool
		var present atomic.Pointer[watch.FakeWatcher]
		client.PrependWatchReactor("leases", func(clienttesting.Action) (bool, watch.Interface, error) {
			if away.Load() {
				return true, nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}
			w := watch.NewFake()
			present.Store(w)
			return true, w, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		r := New("ns", grace, time.Now)
		must.Do(t, r.FollowLeases(ctx, client, func(*Report) {}))
		silent := func(what string, want bool) {
			t.Helper()
			if got := !r.beats.silence("n1", "ns/n1").IsZero(); got != want {
				t.Errorf("%s: silent is %v", what, got)
			}
		}
		time.Sleep(20 * time.Second)
		silent("renewed 20 s ago", false)
		away.Store(true)
		present.Load().Stop()
		time.Sleep(5 * time.Minute)
		silent("while connections are refused", false)
		away.Store(false)
		time.Sleep(3 * time.Minute) // for the next attempt, and the grace period
		silent("when the API server is back and the lease is not renewed", true)
		cancel()
		time.Sleep(time.Minute)
	})
}

// Time in which the scheduler was stopped or could not watch leases does not make agents silent.
func TestUnobservedTime(t *testing.T) {
	now := time.Unix(1e9, 0)
	h := newHeartbeats("", 40*time.Second, func() time.Time { return now })
	h.regain()
	var changed []string
	h.changed = func(node string) { changed = append(changed, node) }
	pass := func(d time.Duration) {
		for ; d > 0; d -= heartbeatTick {
			now = now.Add(heartbeatTick)
			h.tick()
		}
	}
	lease := func() *coordinationv1.Lease {
		renewed := metav1.NewMicroTime(now.Add(-time.Hour)) // the node's clock differs
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed}}
	}
	first := lease()
	h.seen(first)
	expect := func(what string, silent bool) {
		t.Helper()
		if got := !h.silence("n1", "x/n1").IsZero(); got != silent {
			t.Errorf("%s: silent is %v", what, got)
		}
	}
	pass(39 * time.Second)
	expect("39 s", false)
	now = now.Add(time.Hour) // stopped
	h.tick()
	expect("after an hour in which the scheduler was stopped", false)
	h.lost()
	pass(time.Hour)
	expect("while leases cannot be watched", false)
	h.seen(first) // listed again, not renewed
	pass(time.Second)
	expect("as soon as they can be", false)
	pass(2 * time.Second)
	expect("42 s observed", true)
	h.seen(first)
	expect("an event without renewal", true)
	h.seen(lease())
	expect("a renewal", false)
	if len(changed) != 2 {
		t.Errorf("%d changes were reported, want 2", len(changed))
	}
	now = now.Add(time.Hour) // stopped; the renewal is seen before the clock ticks
	h.seen(lease())
	pass(42 * time.Second)
	expect("42 s after a renewal that was seen right after a stop", true)
}
