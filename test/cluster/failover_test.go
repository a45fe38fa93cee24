package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
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
func (c *test) boundCount() (n int, err error) {
	pods, err := c.pods()
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			n++
		}
	}
	return n, err
}

// atLeast waits until a number of pods have a node, and more, unless it is nil, is true.
func (c *test) atLeast(bound int, more func() error) {
	c.Helper()
	c.eventually(fmt.Sprintf("%d pods are bound", bound), func() error {
		if more != nil {
			if err := more(); err != nil {
				return err
			}
		}
		n, err := c.boundCount()
		if err == nil && n < bound {
			err = fmt.Errorf("%d are", n)
		}
		return err
	})
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
	r.eventually("one of two schedulers leads", func() (err error) {
		leader, err = r.tryLead()
		return err
	})
	for _, s := range r.all {
		s.awaitLog("ttempting to acquire leader lease")
	}
	return leader
}

// tryLead replaces replicas that have ended, and returns an error unless one leads.
func (r *replicas) tryLead() (leader *ownScheduler, err error) {
	r.Helper()
	running, leader := r.running()
	for n := len(running); n < 2; n++ {
		r.all = append(r.all, r.startScheduler(r.configuration))
	}
	if leader == nil {
		err = errors.New("no scheduler holds the lease")
	}
	return leader, err
}

// TestFailover: the leader of two schedulers is stopped while Bindings are in progress. It
// continues when the other one leads and has decided about other pods first. At no revision does a
// CPU belong to two pods, and in the end all pods are bound. PINFOLD_TEST_FAILOVERS=50 repeats it 50
// times.
func TestFailover(t *testing.T) {
	trials := variables.Int(t, "PINFOLD_TEST_FAILOVERS", 2)
	h := record(t, 3)
	h.fence()
	kubeconfig := filepath.Join(h.dir, "config", localcluster.Scheduler+".kubeconfig")
	// Requests are rate-limited to less than kube-scheduler's default of 50 per second. So when the
	// leader is stopped, it has decided about many pods whose Bindings are not sent yet. The lease is
	// short, because each trial waits until it has expired.
	r := &replicas{test: h.test, configuration: h.ownConfiguration(`{leaderElect: true, resourceLock: leases, resourceNamespace: kube-system, resourceName: `+ownLease+
		`, leaseDuration: 4s, renewDeadline: 3s, retryPeriod: 500ms}`, `{kubeconfig: `+kubeconfig+`, qps: 20, burst: 5}`)}
	random := rand.New(rand.NewPCG(3, 4))
	trial, kept := 0, 0
	for ; trial < trials || kept == 0 && trial < trials+8; trial++ { // a trial may miss the moment
		log := r.failover(5+random.IntN(30), time.Duration(random.IntN(1000))*time.Millisecond, trial)
		if strings.Contains(log, "another one may lead") || strings.Contains(log, "another scheduler holds the lease") {
			kept++
		}
		if t.Failed() {
			t.Fatalf("trial %d failed", trial)
		}
	}
	t.Logf("%d trials; in %d the stopped leader tried to bind and was rejected", trial, kept)
	if kept == 0 {
		t.Error("no stopped leader tried to bind, so the test has no effect")
	}
	h.check()
}

// failover stops the leader when a number of pods are bound, and returns its log.
func (r *replicas) failover(bound int, pause time.Duration, trial int) string {
	r.Helper()
	const pods, urgent = 80, 20 // of 2 and 3 CPUs, on a machine of 256
	leader := r.lead()
	before := r.holder()
	r.createAll(pods, func(i int) string { return ownPod(fmt.Sprintf("p%d-%d", trial, i), amd, 2, "") })
	r.atLeast(bound, nil)
	if err := leader.command.Process.Signal(syscall.SIGSTOP); err != nil { // on a busy machine it loses its lease by itself
		r.Logf("trial %d: the leader has ended before it was stopped: %v", trial, err)
	}
	// The next leader decides about these first and gives them CPUs that the stopped one has
	// decided to give to others.
	r.createAll(urgent, func(i int) string {
		return ownPod(fmt.Sprintf("u%d-%d", trial, i), amd, 3, "priorityClassName: system-cluster-critical")
	})
	r.eventually("another scheduler takes the lease", func() error {
		if now := r.holder(); now == "" || now == before {
			return fmt.Errorf("%q has it", now)
		}
		return nil
	})
	time.Sleep(pause)
	_ = leader.command.Process.Signal(syscall.SIGCONT) // it may have ended
	leader.ends()
	r.atLeast(pods+urgent, func() error { _, err := r.tryLead(); return err })
	r.checkBooks()
	r.eventually("pods are deleted", func() error { return r.deletePods(r.Context(), r.home) })
	return leader.log.String()
}

// createAll creates pods concurrently.
func (c *test) createAll(n int, manifest func(i int) string) {
	c.Helper()
	var group errgroup.Group
	for i := range n {
		pod := c.parse(manifest(i))
		group.Go(func() error {
			_, err := c.podAPI().Create(c.Context(), pod, metav1.CreateOptions{})
			return err
		})
	}
	c.must(group.Wait())
}
