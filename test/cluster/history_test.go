package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/local/localcluster"
	"pinfold.dev/pinfold/test/history"
	"pinfold.dev/pinfold/test/variables"
)

// stock is the schedulerName of a scheduler without Pinfold.
const stock = "stock"

// TestHistory: random operations of an administrator and a tenant, while components are killed and
// stopped, violate no guarantee at any revision. Two schedulers lead at once, and another one knows
// nothing of Pinfold. Agents are killed, and lose what they have saved.
func TestHistory(t *testing.T) {
	h := record(t, seed(t))
	connection := "{kubeconfig: " + filepath.Join(h.dir, "config", localcluster.Scheduler+".kubeconfig") + "}"
	h.startScheduler(strings.Replace(h.ownConfiguration("{leaderElect: false}", connection), "schedulerName: "+ownName, "schedulerName: default-scheduler", 1))
	h.startScheduler(fmt.Sprintf(stockScheduler, filepath.Join(h.dir, "config", localcluster.Scheduler+".kubeconfig"), stock))
	h.allocate(h.newAllocator("exact-0"), h.newAllocator("exact-1"))
	h.driver.Components = []string{localcluster.Scheduler, localcluster.APIServer, localcluster.Etcd, localcluster.ControllerManager, localcluster.Agents}
	h.driver.Faults = 1
	operations := variables.Int(t, variables.Operations, 400)
	for round := 1; ; round++ {
		h.run(operations)
		report := h.check(2)
		if report.Allocated >= operations/20 && report.HandedOver >= operations/20 || t.Failed() {
			return
		}
		if round == 5 {
			t.Fatalf("%s: too few for a test of %d operations", report, operations)
		}
		t.Log("too few decisions, since no scheduler was running most of the time: continuing")
	}
}

// TestPredictions: a pod gets CPUs on the node that the scheduler has chosen for it. While two
// schedulers lead, a prediction may be wrong, and violates no guarantee.
func TestPredictions(t *testing.T) {
	for _, leaders := range []int{1, 2} {
		t.Run(fmt.Sprint(leaders), func(t *testing.T) {
			h := record(t, seed(t))
			bound := make([]atomic.Int32, leaders)
			for i := range bound {
				h.startLeader(&bound[i])
			}
			h.driver.SchedulerName, h.driver.Victims, h.driver.Compact, h.driver.Predictable = ownName, nil, nil, true
			h.run(variables.Int(t, variables.Operations, 400))
			report := h.check(leaders)
			t.Logf("%d leaders have bound %v pods; %d of %d predictions were wrong: %q", leaders, bound, len(report.Unserved), report.Allocated+len(report.Unserved), report.Unserved)
			if leaders == 1 && len(report.Unserved) > 0 || bound[leaders-1].Load() == 0 {
				t.Errorf("want no wrong prediction of one scheduler, and two that bind pods")
			}
		})
	}
}

// startLeader starts a scheduler of the test that leads, whoever else does. Its Bindings take up to
// 20 ms, and bound counts those that succeed.
func (c *test) startLeader(bound *atomic.Int32) {
	c.Helper()
	binds := func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/binding") }
	kubeconfig := c.startProxy(func(server *httputil.ReverseProxy) http.Handler {
		server.ModifyResponse = func(r *http.Response) error {
			if binds(r.Request) && r.StatusCode == http.StatusCreated {
				bound.Add(1)
			}
			return nil
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if binds(r) {
				time.Sleep(rand.N(20 * time.Millisecond))
			}
			server.ServeHTTP(w, r)
		})
	})
	c.startScheduler(c.ownConfiguration("{leaderElect: false}", "{kubeconfig: "+kubeconfig+", qps: 1000, burst: 1000}"))
}

// seed returns a random seed, unless a run is repeated.
func seed(t *testing.T) uint64 {
	t.Helper()
	return uint64(variables.Int(t, variables.Seed, int(time.Now().UnixNano()>>10)))
}

// recorded is a cluster whose history is recorded.
type recorded struct {
	*test
	seed     uint64
	recorder *history.Recorder
	driver   *history.Driver
	settled  func() error // checks whether the agents have done what they published
}

// record starts a recorder and returns a driver that does not stop components yet.
func record(t *testing.T, seed uint64) *recorded {
	t.Helper()
	h := &recorded{test: begin(t), seed: seed, settled: func() error { return nil }}
	t.Logf("%s=%d repeats the operations of this run", variables.Seed, seed)
	recorder, err := history.Record(context.Background(), h.objects)
	h.must(err)
	h.recorder = recorder
	t.Cleanup(recorder.Stop)
	tenant := rest.CopyConfig(h.config)
	tenant.Impersonate = rest.ImpersonationConfig{UserName: history.TenantUser, Groups: []string{"system:authenticated"}}
	asTenant, err := kubernetes.NewForConfig(tenant)
	h.must(err)
	h.driver = &history.Driver{
		Client: h.client, Tenant: asTenant, Topologies: h.topologies,
		Random: rand.New(rand.NewPCG(seed, 0)),
		Nodes:  []string{small0, small1, intel}, Victims: []string{small0, small1},
		Simulated: true, Pods: 40, Image: "image", CPUs: 5,
		Signal: (&history.Processes{Dir: h.dir}).Signal, Compact: h.compact,
		Log: func(format string, args ...any) {
			if testing.Verbose() {
				t.Logf(time.Now().Format("15:04:05.000 ")+format, args...)
			}
		},
	}
	t.Cleanup(func() { h.must(h.driver.Clean(context.Background())) })
	return h
}

func (h *recorded) run(operations int) {
	h.Helper()
	begun := time.Now()
	h.must(h.driver.Run(h.Context(), operations))
	h.Logf("%d operations in %v: %v", operations, time.Since(begun).Round(time.Second), h.driver.Done)
}

// allocate adds nodes with agents to those of the driver, and checks in the end that these have done
// what they published.
func (h *recorded) allocate(nodes ...*allocator) {
	d := h.driver
	d.Stock, d.Pause = stock, 30*time.Millisecond
	for _, a := range nodes {
		d.Nodes, d.Allocators = append(d.Nodes, a.node, a.node), append(d.Allocators, a.node)
	}
	d.RestartAgent = func(_ context.Context, node string, forgets bool) error {
		return nodes[slices.Index(d.Allocators, node)].restart(forgets)
	}
	d.Kubelets = func(ctx context.Context) (err error) {
		for _, a := range nodes {
			err = errors.Join(err, a.kubelet(ctx))
		}
		return err
	}
	h.settled = func() error {
		err := d.Kubelets(h.Context())
		for _, a := range nodes {
			err = errors.Join(err, a.agrees())
		}
		return err
	}
}

// check waits until all changes are recorded and reports violations. It keeps a history with
// violations.
func (h *recorded) check(leaders int) history.Report {
	h.Helper()
	h.eventually("agents have done what they published", h.settled)
	h.must(h.recorder.Sync(h.Context()))
	events := h.recorder.Events()
	report, err := history.Check(events, history.Options{MinSharedCPUs: 1, Stock: stock, Leaders: leaders > 1})
	h.must(err)
	h.Log(report)
	for _, violation := range report.Violations {
		h.Error(violation)
	}
	if h.Failed() {
		h.keep(events)
	}
	return report
}

// keep writes a history to a file that remains after the test.
func (h *recorded) keep(events []history.Event) {
	h.Helper()
	file, err := os.Create(filepath.Join(os.TempDir(), fmt.Sprintf("pinfold-history-%d.jsonl", h.seed)))
	h.must(err)
	h.must(errors.Join(history.Write(file, events), file.Close()))
	h.Logf("the history is in %s; the comment of package test/history explains how to check it again", file.Name())
}

// compact removes all earlier revisions from etcd, so that a watch cannot continue at one of them.
func (h *recorded) compact(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client, err := clientv3.New(clientv3.Config{Context: ctx, Endpoints: []string{"unix://" + filepath.Join(h.dir, "etcd.sock")}})
	if err != nil {
		return fmt.Errorf("reach etcd: %w", err)
	}
	defer client.Close()
	now, err := client.Get(ctx, "revision")
	if err == nil {
		_, err = client.Compact(ctx, now.Header.Revision)
	}
	if err != nil {
		h.Logf("not compacted: %v", err) // etcd is down or stopped
	}
	return nil
}
