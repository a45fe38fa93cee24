package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/kube/admission"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/nodetopology/apiclient"
	"pinfold.dev/pinfold/kube/scheduler"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/local/localcluster"
	"pinfold.dev/pinfold/local/localnode"
	"pinfold.dev/pinfold/local/simnode"
	"pinfold.dev/pinfold/test/history"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/variables"
)

// own is the schedulerName of pods that Pinfold's scheduler places, beside the stock kube-scheduler.
const own = "own"

// startScheduler starts Pinfold's scheduler.
func (c *cluster) startScheduler(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	must.Do(t, os.WriteFile(file, fmt.Appendf(nil, `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: %q}
profiles:
- schedulerName: %s
  plugins: {multiPoint: {enabled: [{name: %s, weight: 20}]}}
`, filepath.Join(c.dir, "kubeconfig"), own, scheduler.Name), 0o600))
	command := exec.Command(c.program, "component", localcluster.Scheduler, "--config="+file, "--secure-port=0")
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var log bytes.Buffer
	command.Stdout, command.Stderr = &log, &log
	must.Do(t, command.Start())
	t.Cleanup(func() {
		if _, _ = command.Process.Kill(), command.Wait(); t.Failed() {
			t.Log(log.String())
		}
	})
}

// TestHistory runs random operations on real containers, of pods of the stock kube-scheduler and of
// Pinfold's, while agent, kubelet, containerd and the stock scheduler are killed and stopped, and
// while the agent loses what it has saved. Neither in the history nor in the kernel does a CPU belong
// to two containers. PINFOLD_TEST_OPERATIONS is the number of
// operations, PINFOLD_TEST_SEED repeats them.
func TestHistory(t *testing.T) {
	requireNode(t)
	if online(t).Len() < 2 {
		t.Skip("needs two CPUs: an exclusive and a shared one")
	}
	c := startWith(t, "--stock")
	must.Do(t, simnode.InstallCRD(t.Context(), connection(t, filepath.Join(c.dir, "kubeconfig"))))
	must.Do(t, admission.Install(t.Context(), c.client))
	runDir, flag := t.TempDir(), "--lease-namespace=default"
	var agent atomic.Pointer[agentProcess]
	agent.Store(c.startAgent(t, runDir, flag))
	c.startScheduler(t)
	seed := variables.Int(t, variables.Seed, int(time.Now().UnixNano()>>10))
	t.Logf("PINFOLD_TEST_SEED=%d repeats the operations of this run", seed)
	config := connection(t, c.dir+"/kubeconfig")
	objects := must.Get(dynamic.NewForConfig(config))(t)
	recorder := must.Get(history.Record(context.Background(), objects))(t)
	defer recorder.Stop()
	tenant := rest.CopyConfig(config)
	tenant.Impersonate = rest.ImpersonationConfig{UserName: history.TenantUser, Groups: []string{"system:authenticated"}}
	topologies := must.Get(apiclient.New(config))(t)
	driver := &history.Driver{
		Client: c.client, Tenant: must.Get(kubernetes.NewForConfig(tenant))(t), Topologies: topologies,
		Random: rand.New(rand.NewPCG(uint64(seed), 0)),
		Nodes:  []string{localnode.Name}, Pods: 8, Image: webImage, CPUs: 1,
		Components: []string{localnode.Agent, localnode.Agent, localnode.Kubelet, localnode.Containerd, localcluster.Scheduler},
		Faults:     6, SchedulerName: own, Stock: corev1.DefaultSchedulerName,
		Pause: 500 * time.Millisecond, // about the time that a container takes to start
		Log: func(format string, args ...any) {
			if testing.Verbose() {
				t.Logf(time.Now().Format("15:04:05.000 ")+format, args...)
			}
		},
	}
	driver.RestartAgent = func(_ context.Context, _ string, forgets bool) error {
		agent.Load().kill()
		if forgets {
			_ = os.Remove(agent.Load().saved) // it may have saved nothing
		}
		agent.Store(c.runAgent(t, runDir, flag))
		return nil
	}
	supervised := history.Processes{Dir: c.dir}
	driver.Signal = func(ctx context.Context, component string, signal syscall.Signal) error {
		switch {
		case component != localnode.Agent:
			return supervised.Signal(ctx, component, signal)
		case signal == syscall.SIGKILL:
			return driver.RestartAgent(ctx, localnode.Name, false)
		}
		return agent.Load().Process.Signal(signal)
	}
	s := newSampler(t, c.client, topologies)
	operations := variables.Int(t, variables.Operations, 100)
	for round := 1; ; round++ {
		sampled := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { s.run(ctx); close(sampled) }()
		err := driver.Run(t.Context(), operations)
		if err == nil {
			eventually(t, "the kernel agrees in the end", func() error { return s.settled() })
		}
		cancel()
		<-sampled
		if err != nil {
			t.Fatal(err)
		}
		must.Do(t, recorder.Sync(t.Context()))
		report := must.Get(history.Check(recorder.Events(), history.Options{MinSharedCPUs: 1, Stock: driver.Stock}))(t)
		t.Logf("%v\n%s\n%s", driver.Done, report, s)
		for _, violation := range report.Violations {
			t.Error(violation)
		}
		for _, violation := range s.violations {
			t.Error(violation)
		}
		if t.Failed() || report.Allocated >= 5 && s.compared >= 100 {
			break
		}
		if round == 5 {
			t.Fatal("too few allocations or comparisons for a test")
		}
		// On a busy machine, pods may be deleted before their containers have started.
		driver.Pause, operations = 2*driver.Pause, (operations+1)/2
		t.Logf("too few allocations or comparisons: %d operations with pauses of %v follow", operations, driver.Pause)
	}
	if err := driver.Clean(t.Context()); err != nil {
		t.Error(err)
	}
	must.Do(t, driver.RestartAgent(t.Context(), localnode.Name, false))
	eventually(t, "the agent", agent.Load().ready)
	t.Run("sampler", func(t *testing.T) { c.testSampler(t, agent.Load(), topologies) })
}

// testSampler: the sampler detects a container on another's CPU. The agent, which would correct it,
// is stopped.
func (c *cluster) testSampler(t *testing.T, agent *agentProcess, topologies nodetopology.Client) {
	other := c.run(t, podOf("other", "", container("a", "8001", "250m")))
	defer c.remove(t, other.Name)
	static := c.run(t, podOf("static", "static", container("a", "8001", "1")))
	defer c.remove(t, static.Name)
	s := newSampler(t, c.client, topologies)
	eventually(t, "the kernel agrees", func() error { return s.settled() })
	eventually(t, "cgroups are judged", func() error { // those that change meanwhile are not
		if s.sample(t.Context()); len(s.judged) == 0 {
			return errors.New("none yet")
		}
		return nil
	})
	if len(s.violations) > 0 {
		t.Fatalf("violations %q", s.violations)
	}
	must.Do(t, agent.Process.Signal(syscall.SIGSTOP))
	defer func() { _ = agent.Process.Signal(syscall.SIGCONT) }() // for a test that fails
	group := s.kernel.containerGroup(other, "a")
	file := s.kernel.groups.File(s.kernel.podGroup(other), cgroup.CPUSetCPUs)
	for _, file := range []string{file, s.kernel.groups.File(group, cgroup.CPUSetCPUs)} {
		must.Do(t, os.WriteFile(file, []byte(online(t).String()), 0))
	}
	s.sample(t.Context())
	if len(s.violations) != 1 || !strings.Contains(s.violations[0], group) {
		t.Errorf("violations %q, want one about %s", s.violations, group)
	}
}
