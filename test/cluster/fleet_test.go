package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/agent"
	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// TestLeaseOfFleet: beside the leases of 1,500 other agents, an agent renews its own every 12 s
// instead of 10 s, and its lease lasts four times as long.
func TestLeaseOfFleet(t *testing.T) {
	const name, others, lasts, mine = "agent-of-fleet", 1500, 48, "pinfold.dev/test=fleet"
	c := begin(t)
	c.applyAgentRights()
	leases := c.client.CoordinationV1().Leases(nodetopology.LeaseNamespace)
	t.Cleanup(func() {
		c.must(leases.DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: mine}))
	})
	var work errgroup.Group
	work.SetLimit(16)
	for i := range others {
		work.Go(func() error {
			_, err := leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("fleet-", i),
				Labels: map[string]string{"pinfold.dev/test": "fleet"}}}, metav1.CreateOptions{})
			return err
		})
	}
	c.must(work.Wait())
	own := c.as(c.agentConfig(c.createNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Unschedulable: true}})))
	c.runAgent(agent.Options{Config: control.Config{NodeName: name}, Root: newFixture(t).root, RunDir: t.TempDir(), Client: own.client, Topologies: own.topologies,
		Kubelet: noPolicy, Period: time.Second, APIEvery: time.Second, RetryAfter: 100 * time.Millisecond, LeaseNamespace: nodetopology.LeaseNamespace,
		Log: slog.New(slog.DiscardHandler)})
	c.eventually(func() string {
		lease, err := leases.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if got := *lease.Spec.LeaseDurationSeconds; got < lasts || got > lasts+10 { // other tests have some
			return fmt.Sprintf("the lease lasts for %d s, want %d", got, lasts)
		}
		return ""
	})
}

// TestLoadOfFleet counts what agents ask of the API server while nothing changes. Renewals of leases,
// of which TestLeaseInterval bounds the number in a large cluster, must be the only writes. The reads
// are those of docs/figures.md: of 5,000 agents they would be at most 250 a second.
func TestLoadOfFleet(t *testing.T) {
	const agents, settle, window = 20, 30 * time.Second, 66 * time.Second
	c := begin(t)
	c.applyAgentRights()
	var mu sync.Mutex
	counted := map[string]int{}
	count := func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			kind := "read"
			switch {
			case r.Method == http.MethodGet:
			case strings.Contains(r.URL.Path, "/leases/"):
				kind = "lease"
			default:
				kind = r.Method + " " + r.URL.Path
			}
			mu.Lock()
			counted[kind]++
			mu.Unlock()
			return next.RoundTrip(r)
		})
	}
	for i := range agents {
		name := fmt.Sprint("load-of-fleet-", i)
		config := c.agentConfig(c.createNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{Unschedulable: true}}))
		config.Wrap(count)
		own := c.as(config)
		c.runAgent(agent.Options{Config: control.Config{NodeName: name}, Root: newFixture(t).root, RunDir: t.TempDir(), Client: own.client, Topologies: own.topologies,
			Kubelet: noPolicy, Period: time.Minute, LeaseNamespace: nodetopology.LeaseNamespace, Log: slog.New(slog.DiscardHandler)})
	}
	time.Sleep(settle)
	mu.Lock()
	clear(counted)
	mu.Unlock()
	time.Sleep(window)
	mu.Lock()
	defer mu.Unlock()
	t.Log(counted)
	each := func(kind string) float64 { return float64(counted[kind]) / agents / window.Seconds() }
	if got := each("lease"); got < 0.08 || got > 0.12 {
		t.Errorf("an agent renews its lease %.3f times a second, want about once in 10 s", got)
	}
	if got := each("read"); got == 0 || got > 0.05 {
		t.Errorf("an agent reads %.3f times a second, want at most 0.05", got)
	}
	for kind, n := range counted {
		if kind != "read" && kind != "lease" {
			t.Errorf("agents write when nothing changes: %d times %s", n, kind)
		}
	}
}
