package node

import (
	"context"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/lab/localcluster"
	"pinfold.dev/pinfold/lab/localnode"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/test/history"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/variables"
)

// TestHistory runs random operations on real containers while agent, kubelet, containerd and the
// scheduler are killed and stopped. Neither in the history nor in the kernel does a CPU belong to
// two containers. PINFOLD_TEST_OPERATIONS is the number of operations, PINFOLD_TEST_SEED repeats
// them.
func TestHistory(t *testing.T) {
	requireNode(t)
	if online(t).Len() < 2 {
		t.Skip("needs two CPUs: an exclusive and a shared one")
	}
	c := start(t)
	seed := variables.Int(t, variables.Seed, int(time.Now().UnixNano()>>10))
	t.Logf("PINFOLD_TEST_SEED=%d repeats the operations of this run", seed)
	config := connection(t, c.dir+"/kubeconfig")
	objects := must.Get(dynamic.NewForConfig(config))(t)
	recorder := must.Get(history.Record(context.Background(), objects))(t)
	defer recorder.Stop()
	tenant := rest.CopyConfig(config)
	tenant.Impersonate = rest.ImpersonationConfig{UserName: history.TenantUser, Groups: []string{"system:authenticated"}}
	driver := &history.Driver{
		Client: c.client, Tenant: must.Get(kubernetes.NewForConfig(tenant))(t), Topologies: must.Get(nodetopology.NewClient(config))(t),
		Random: rand.New(rand.NewPCG(uint64(seed), 0)),
		Nodes:  []string{localnode.Name}, Pods: 8, Image: webImage, CPUs: 1,
		Components: []string{localnode.Agent, localnode.Agent, localnode.Kubelet, localnode.Containerd, localcluster.Scheduler},
		Faults:     6,
		Signal:     (&history.Processes{Dir: c.dir}).Signal,
		Pause:      500 * time.Millisecond, // about the time that a container takes to start
		Log: func(format string, args ...any) {
			if testing.Verbose() {
				t.Logf(time.Now().Format("15:04:05.000 ")+format, args...)
			}
		},
	}
	s := newSampler(t, c.client)
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
		report := must.Get(history.Check(recorder.Events(), history.Options{MinSharedCPUs: 1}))(t)
		t.Logf("%v\n%s\n%s", driver.Done, report, s)
		for _, violation := range report.Violations {
			t.Error(violation)
		}
		for _, violation := range s.violations {
			t.Error(violation)
		}
		if t.Failed() || report.Decisions >= 5 && s.compared >= 100 {
			break
		}
		if round == 5 {
			t.Fatal("too few decisions or comparisons for a test")
		}
		// On a busy machine, pods may be deleted before their containers have started.
		driver.Pause, operations = 2*driver.Pause, (operations+1)/2
		t.Logf("too few decisions or comparisons: %d operations with pauses of %v follow", operations, driver.Pause)
	}
	if err := driver.Clean(t.Context()); err != nil {
		t.Error(err)
	}
	t.Run("sampler", c.testSampler)
}

// testSampler: the sampler detects a container on another's CPU. The agent, which would correct it,
// is stopped.
func (c *cluster) testSampler(t *testing.T) {
	other := c.run(t, podOf("other", "", container("a", "8001", "250m")))
	defer c.remove(t, other.Name)
	static := c.run(t, podOf("static", "static", container("a", "8001", "1")))
	defer c.remove(t, static.Name)
	s := newSampler(t, c.client)
	eventually(t, "the kernel agrees", func() error { return s.settled() })
	s.sample(t.Context())
	if len(s.judged) == 0 || len(s.violations) > 0 {
		t.Fatalf("%d cgroups are judged; violations %q", len(s.judged), s.violations)
	}
	agent := c.pid(t, localnode.Agent)
	must.Do(t, syscall.Kill(agent, syscall.SIGSTOP))
	defer func() { _ = syscall.Kill(agent, syscall.SIGCONT) }() // for a test that fails
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
