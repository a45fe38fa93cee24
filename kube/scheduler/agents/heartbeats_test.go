package agents

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("n1"), RenewTime: &renewed}}
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
	other := lease()
	other.Spec.HolderIdentity = new("n2")
	h.seen(other)
	expect("an event without renewal, and one of another holder", true)
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
