package cluster

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"pinfold.dev/pinfold/lab/localcluster"
	"pinfold.dev/pinfold/test/variables"
)

// TestHistoryFailover: two schedulers share a lease while pods of all kinds are created and
// deleted. The leader is stopped until the other one leads, and then continues with its earlier
// decisions. At no revision does a CPU belong to two pods.
func TestHistoryFailover(t *testing.T) {
	h := record(t, seed(t))
	h.driver.Victims, h.driver.Pods, h.driver.SchedulerName = nil, 60, ownName
	h.fence()
	kubeconfig := filepath.Join(h.dir, "config", localcluster.Scheduler+".kubeconfig")
	// Requests are rate-limited, so that many Bindings are in progress at any time.
	configuration := h.ownConfiguration(`{leaderElect: true, resourceLock: leases, resourceNamespace: kube-system, resourceName: `+ownLease+
		`, leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 500ms}`, `{kubeconfig: `+kubeconfig+`, qps: 20, burst: 5}`)
	leader := h.startScheduler(configuration)
	h.eventually(func() string {
		if h.holder() == "" {
			return "nobody leads"
		}
		return ""
	})
	for range variables.Int(t, failoversVariable, 3) {
		next := h.startScheduler(configuration)
		next.awaitLog("ttempting to acquire leader lease")
		over, done := make(chan struct{}), make(chan error, 1)
		go func() { done <- h.driver.RunUntil(t.Context(), over) }()
		time.Sleep(2 * time.Second) // it may have begun to bind, or not: both cases should occur
		before := h.holder()
		h.must(leader.command.Process.Signal(syscall.SIGSTOP))
		h.eventually(func() string {
			if now := h.holder(); now == "" || now == before {
				return "nobody else takes the lease"
			}
			return ""
		})
		h.must(leader.command.Process.Signal(syscall.SIGCONT))
		leader.ends()
		close(over)
		h.must(<-done)
		leader = next
	}
	report := h.check()
	for round := 0; report.Decisions < 20 && round < 5; round++ {
		h.run(100)
		report = h.check()
	}
	if report.Decisions < 20 {
		t.Errorf("%s: too few decisions for a test", report)
	}
}
