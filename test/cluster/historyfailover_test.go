package cluster

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"pinfold.dev/pinfold/lab/localcluster"
	"pinfold.dev/pinfold/test/variables"
)

// Two schedulers share a lease while pods of all kinds come and go. The leader is stopped
// until the other one leads, and goes on with what it had decided. At no revision does
// that give a CPU to two pods.
func TestHistoryFailover(t *testing.T) {
	h := record(t, seed(t))
	h.driver.Victims, h.driver.Pods, h.driver.SchedulerName = nil, 60, ownName
	h.fence()
	kubeconfig := filepath.Join(h.dir, "config", localcluster.Scheduler+".kubeconfig")
	// Requests wait for their turn, so that many Bindings are on their way at any time.
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
		next.says("ttempting to acquire leader lease")
		over, done := make(chan struct{}), make(chan error, 1)
		go func() { done <- h.driver.RunUntil(t.Context(), over) }()
		time.Sleep(2 * time.Second) // it has begun to bind then, or not: both are to be tried
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
	if report := h.check(); report.Decisions < 20 {
		t.Errorf("%s: that is no test", report)
	}
}
