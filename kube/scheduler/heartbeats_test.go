package scheduler

import (
	"context"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/kube/nodetopology"
)

// renew renews the lease of a node's agent, and waits until the scheduler has seen it.
func (s *scenario) renew(node string) {
	s.t.Helper()
	leases := s.client.CoordinationV1().Leases(nodetopology.LeaseNamespace)
	now := metav1.NowMicro()
	lease, err := leases.Get(context.Background(), node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: coordinationv1.LeaseSpec{RenewTime: &now}}
		_, err = leases.Create(context.Background(), lease, metav1.CreateOptions{})
	} else {
		lease.Spec.RenewTime = &now
		_, err = leases.Update(context.Background(), lease, metav1.UpdateOptions{})
	}
	s.must(err)
	h := s.plugin.shared.agents
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		h.mu.Lock()
		b := h.beats[node]
		seen := b != nil && b.renewed.Equal(&now)
		h.mu.Unlock()
		if seen {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the lease of %s is not seen", node)
		}
	}
}

// silence makes the last renewal this old.
func (s *scenario) silence(node string, d time.Duration) {
	h := s.plugin.shared.agents
	h.mu.Lock()
	h.beats[node].at = h.now().Add(-d)
	h.mu.Unlock()
	h.tick()
}

// The condition of a node whose agent is silent is set to Unknown, and only the agent changes it
// back.
func TestConditionOfSilentNode(t *testing.T) {
	s := &scenario{fakeCluster: newFakeCluster(t, DefaultConfiguration), seen: map[string]string{}}
	for _, command := range []string{"node n1 cores=4", "report n1 cores=4 lease", "renew n1", "pod asks cpus=1", "silence n1"} {
		s.run(strings.Fields(command))
		s.awaitIdle()
	}
	c := s.condition("n1")
	if c.Status != corev1.ConditionUnknown || c.Reason != SilentReason || !strings.Contains(c.Message, "lease pinfold-system/n1 since 20") {
		t.Errorf("the condition is %+v", c)
	}
	s.run(strings.Fields("renew n1"))
	s.awaitIdle()
	if again := s.condition("n1"); again != c {
		t.Errorf("the scheduler has changed the condition to %+v", again)
	}
}

func (s *scenario) condition(node string) corev1.NodeCondition {
	s.t.Helper()
	obj, err := s.client.CoreV1().Nodes().Get(context.Background(), node, metav1.GetOptions{})
	s.must(err)
	for _, c := range obj.Status.Conditions {
		if c.Type == nodetopology.BindingCondition {
			return c
		}
	}
	return corev1.NodeCondition{}
}

// Time in which the scheduler was stopped or could not watch leases does not make agents silent.
func TestUnobservedTime(t *testing.T) {
	now := time.Unix(1e9, 0)
	h := newHeartbeats("", 40*time.Second)
	h.now = func() time.Time { return now }
	h.ticked, h.blind = now, now
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
