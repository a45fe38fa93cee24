package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/scheduler/agents"
	"pinfold.dev/pinfold/test/must"
)

// BenchmarkSchedulePod measures the scheduling of static pods of several sizes in a whole
// kube-scheduler, from the snapshot to the end of Reserve. Pods come back bound after some
// further pods, agents publish what they allocate to them, and other pods end, so that the cluster stays equally full. No API server is
// involved. cpu-ns/op is the CPU time of the process.
func BenchmarkSchedulePod(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			c := newSimulatedCluster(b, nodes)
			for range 200 {
				c.schedule()
			}
			before := processTime(b)
			b.ReportAllocs()
			for b.Loop() {
				c.schedule()
			}
			b.ReportMetric(float64(processTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

func processTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// simulatedCluster is a scheduler whose cache is filled directly, without informers.
type simulatedCluster struct {
	*fakeCluster
	ctx      context.Context
	log      klog.Logger
	profile  framework.Framework
	snapshot *internalcache.Snapshot
	indexes  map[*topology.Machine]*placement.Index
	rng      *rand.Rand
	created  int
	assumed  []*corev1.Pod // oldest first
	bound    []*corev1.Pod
}

// podsInFlight is how many pods are assumed and not yet bound, as at a real API server.
const podsInFlight = 16

func newSimulatedCluster(b *testing.B, nodes int) *simulatedCluster {
	c := &simulatedCluster{fakeCluster: newFakeCluster(b, DefaultConfiguration), ctx: b.Context(), log: klog.Background(),
		indexes: map[*topology.Machine]*placement.Index{}, rng: rand.New(rand.NewPCG(1, 2))}
	c.profile = c.scheduler.Profiles[corev1.DefaultSchedulerName]
	c.snapshot = c.profile.SnapshotSharedLister().(*internalcache.Snapshot)
	machines := []*topology.Machine{topology.Intel104().MustBuild(), topology.AMD256().MustBuild(),
		topology.Shape{Packages: 2, CoresPerLLC: 16, ThreadsPerCore: 2}.MustBuild()}
	for i := range nodes {
		c.addNode(fmt.Sprint("n", i), machines[i%len(machines)])
	}
	return c
}

func (c *simulatedCluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// addNode adds a node with a few bound pods.
func (c *simulatedCluster) addNode(name string, machine *topology.Machine) {
	if c.indexes[machine] == nil {
		c.indexes[machine] = placement.NewIndex(machine)
	}
	index := c.indexes[machine]
	c.plugin.shared.reports.Set(&agents.Report{ObjectMeta: metav1.ObjectMeta{Name: name},
		Decoded: nodetopology.Decoded{Index: index, State: nodetopology.State{AgentHealth: nodetopology.AgentHealthy, Allocations: api.Allocations{}}}})
	node := nodeInfoOf(name, len(machine.CPUs)).Node()
	node.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("500")
	c.scheduler.Cache.AddNode(c.log, node)
	books, all := ledger.New(index, ledger.Config{MinShared: 1}), api.Allocations{}
	for range 6 {
		pod := c.newPod()
		q, err := newQuestion(pod)
		c.must(err)
		decision, err := books.Decide(q.ask)
		if err != nil {
			break // the node is full
		}
		books.Add(decision.Claim(ledger.PodID(pod.UID), int64(c.created)))
		all[pod.UID] = api.NewAllocation(name, machine, decision)
		pod.Spec.NodeName = name
		c.confirm(pod)
	}
	c.report(name, all)
}

// report passes what the agent of a node has published.
func (c *simulatedCluster) report(name string, all api.Allocations) {
	now := *c.plugin.shared.reports.Named(name)
	now.State.Allocations = all
	c.plugin.shared.reports.Set(&now)
	c.plugin.published(name)
}

func (c *simulatedCluster) newPod() *corev1.Pod {
	c.created++
	sizes := []int{1, 2, 2, 4, 4, 8, 16}
	pod := askingPod(fmt.Sprint("p", c.created), sizes[c.rng.IntN(len(sizes))])
	pod.Spec.SchedulerName = corev1.DefaultSchedulerName
	return pod
}

// confirm passes the bound pod to the scheduler's cache.
func (c *simulatedCluster) confirm(pod *corev1.Pod) {
	bound := pod.DeepCopy()
	setBound(bound, pod.Spec.NodeName, "2")
	c.must(c.scheduler.Cache.AddPod(c.log, bound))
	c.bound = append(c.bound, bound)
}

// schedule runs one scheduling cycle. Then the oldest assumed pod is bound, and a bound pod ends.
func (c *simulatedCluster) schedule() {
	c.must(c.scheduler.Cache.UpdateSnapshot(c.log, c.snapshot))
	pod := c.newPod()
	info, err := framework.NewPodInfo(pod)
	c.must(err)
	state := framework.NewCycleState()
	result, err := c.scheduler.SchedulePod(c.ctx, c.profile, state, &framework.QueuedPodInfo{PodInfo: info})
	c.must(err)
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = result.SuggestedHost
	c.must(c.scheduler.Cache.AssumePod(c.log, assumed))
	c.must(c.profile.RunReservePluginsReserve(c.ctx, state, assumed, result.SuggestedHost).AsError())
	c.assumed = append(c.assumed, assumed)
	if len(c.assumed) <= podsInFlight {
		return
	}
	c.confirm(c.assumed[0])
	c.agent(c.assumed[0].Spec.NodeName)
	c.assumed = c.assumed[1:]
	ends, last := c.rng.IntN(len(c.bound)), len(c.bound)-1
	c.must(c.scheduler.Cache.RemovePod(c.log, c.bound[ends]))
	c.bound[ends], c.bound = c.bound[last], c.bound[:last]
}

// agent publishes what the agent of a node allocates.
func (c *simulatedCluster) agent(name string) {
	c.must(c.scheduler.Cache.UpdateSnapshot(c.log, c.snapshot))
	info, err := c.snapshot.Get(name)
	c.must(err)
	c.report(name, allocate(c.plugin, info, c.plugin.shared.reports.Named(name)))
}
