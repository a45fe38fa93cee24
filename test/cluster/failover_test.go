package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/kube/admission"
	"pinfold.dev/pinfold/lab/localcluster"
	"pinfold.dev/pinfold/test/variables"
)

// ownLease is the lease of the test's own schedulers.
const ownLease = "own-scheduler"

// fence makes the API server reject Bindings of a test's own scheduler that has lost its lease.
func (c *test) fence() {
	c.Helper()
	c.must(admission.InstallFence(c.Context(), c.client, admission.LeaseNamespace, ownLease))
	c.Cleanup(func() {
		registration, ctx := c.client.AdmissionregistrationV1(), context.Background()
		name := admission.FenceName(ownLease)
		if err := registration.ValidatingAdmissionPolicyBindings().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			c.Error(err)
		}
		if err := registration.ValidatingAdmissionPolicies().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			c.Error(err)
		}
		if err := c.client.CoordinationV1().Leases(admission.LeaseNamespace).Delete(ctx, ownLease, metav1.DeleteOptions{}); err != nil {
			c.Error(err)
		}
	})
}

// holder returns the leader of the test's own schedulers, "" if there is none.
func (c *test) holder() string {
	lease, err := c.client.CoordinationV1().Leases(admission.LeaseNamespace).Get(c.Context(), ownLease, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// boundCount returns the number of pods that have a node.
func (c *test) boundCount() (n int) {
	for _, pod := range c.pods() {
		if pod.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// replicas are two schedulers, of which one leads. One that ends is replaced, as in a cluster: on a
// busy machine a leader may lose its lease.
type replicas struct {
	*test
	configuration string
	all           []*ownScheduler // those that have ended are at the end
}

// running returns the replicas that run, and which of them leads, nil if none does.
func (r *replicas) running() (running []*ownScheduler, leader *ownScheduler) {
	for _, s := range r.all {
		select {
		case <-s.ended:
		default:
			running = append(running, s)
			if strings.Contains(s.log.String(), "uccessfully acquired lease") {
				leader = s
			}
		}
	}
	return running, leader
}

// lead waits until there are two replicas of which one leads, and returns that.
func (r *replicas) lead() (leader *ownScheduler) {
	r.Helper()
	r.eventually(func() string {
		running, found := r.running()
		for ; len(running) < 2; running = append(running, nil) {
			r.all = append(r.all, r.startScheduler(r.configuration))
		}
		if leader = found; leader == nil {
			return "nobody leads"
		}
		return ""
	})
	for _, s := range r.all {
		s.awaitLog("ttempting to acquire leader lease")
	}
	return leader
}

// TestFailover: the leader of two schedulers is stopped while Bindings are in progress. It
// continues when the other one leads and has decided about other pods first. Afterwards no CPU
// belongs to two pods, and all pods are bound. PINFOLD_TEST_FAILOVERS=50 repeats it 50 times.
func TestFailover(t *testing.T) {
	trials := variables.Int(t, failoversVariable, 3)
	c := begin(t)
	c.fence()
	kubeconfig := filepath.Join(c.dir, "config", localcluster.Scheduler+".kubeconfig")
	// Requests are rate-limited to 50 per second, kube-scheduler's default. So when the leader is
	// stopped, it has decided about many pods whose Bindings are not sent yet.
	r := &replicas{test: c, configuration: c.ownConfiguration(`{leaderElect: true, resourceLock: leases, resourceNamespace: kube-system, resourceName: `+ownLease+
		`, leaseDuration: 4s, renewDeadline: 3s, retryPeriod: 500ms}`, `{kubeconfig: `+kubeconfig+`, qps: 20, burst: 5}`)}
	random := rand.New(rand.NewPCG(3, 4))
	kept := 0
	for trial := range trials {
		log := r.failover(5+random.IntN(30), time.Duration(random.IntN(1000))*time.Millisecond, trial)
		if strings.Contains(log, "another one may lead") || strings.Contains(log, "another scheduler holds the lease") {
			kept++
		}
		if t.Failed() {
			t.Fatalf("trial %d of %d failed", trial, trials)
		}
	}
	t.Logf("%d trials; in %d the stopped leader tried to bind and was rejected", trials, kept)
	if kept == 0 && trials > 1 { // one may miss the moment
		t.Error("no stopped leader tried to bind, so the test has no effect")
	}
}

// failover stops the leader when a number of pods are bound, and returns its log.
func (r *replicas) failover(bound int, pause time.Duration, trial int) string {
	r.Helper()
	const pods, urgent = 80, 20 // of 2 and 3 CPUs, on a machine of 256
	leader := r.lead()
	before := r.holder()
	r.createAll(pods, func(i int) string { return ownPod(fmt.Sprintf("p%d-%d", trial, i), amd, 2, "") })
	r.eventually(func() string {
		if n := r.boundCount(); n < bound {
			return fmt.Sprintf("%d pods of %d are bound", n, bound)
		}
		return ""
	})
	r.must(leader.command.Process.Signal(syscall.SIGSTOP))
	// The next leader decides about these first and gives them CPUs that the stopped one has
	// decided to give to others.
	r.createAll(urgent, func(i int) string {
		return ownPod(fmt.Sprintf("u%d-%d", trial, i), amd, 3, "priorityClassName: system-cluster-critical")
	})
	r.eventually(func() string {
		if now := r.holder(); now == "" || now == before {
			return "nobody else takes the lease"
		}
		return ""
	})
	time.Sleep(pause)
	r.must(leader.command.Process.Signal(syscall.SIGCONT))
	leader.ends()
	r.eventually(func() string {
		r.lead()
		if n := r.boundCount(); n < pods+urgent {
			return fmt.Sprintf("%d of %d pods are bound", n, pods+urgent)
		}
		return ""
	})
	r.checkBooks()
	r.deletePods()
	return leader.log.String()
}

// createAll creates pods concurrently.
func (c *test) createAll(n int, manifest func(i int) string) {
	var work sync.WaitGroup
	for i := range n {
		work.Go(func() { c.create(manifest(i)) })
	}
	work.Wait()
}
