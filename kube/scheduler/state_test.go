package scheduler

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/test/busy"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
)

// A nominated pod keeps the CPUs that it will get, whether or not its victims have ended. The
// framework adds it to a copy of the NodeInfo.
func TestNominatedPods(t *testing.T) {
	eight := topology.Shape{CoresPerLLC: 4, ThreadsPerCore: 2}.MustBuild()
	for _, test := range []struct {
		name      string
		running   int   // CPUs of the victim
		nominated []int // CPUs of the nominated pods
		asks      int
		fits      bool
	}{
		{"no pod is nominated", 5, nil, 2, true},
		{"the victim has ended", 0, []int{6}, 1, true},
		{"the victim has ended, too many", 0, []int{6}, 2, false},
		{"the victim still runs", 5, []int{6}, 1, false},
		{"the victim still runs beside a nominated pod that does not fit", 5, []int{3}, 1, false},
		{"several are nominated", 0, []int{3, 2}, 2, true},
		{"several are nominated, too many", 0, []int{3, 3}, 2, false},
		{"a pod that does not ask", 5, []int{6}, 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, node := barePlugin(t), nodeInfoOf("n", 8)
			reportMachine(t, p, "n", eight, 1)
			if test.running > 0 {
				victim := askingPod("victim", test.running)
				comeBack(t, assume(t, p, startCycle(t, p, victim, node), victim, node), node)
			}
			kept := lastingState(p, node)
			with := node.Snapshot()
			for i, n := range test.nominated {
				with.AddPodInfo(podInfo(t, askingPod(fmt.Sprint("nominated", i), n)))
			}
			pod := askingPod("pod", test.asks)
			status := p.Filter(context.Background(), startCycle(t, p, pod, node), pod, with)
			if status.IsSuccess() != test.fits {
				t.Errorf("fits: %v, want %v (%s)", status.IsSuccess(), test.fits, status.Message())
			}
			if lastingState(p, node) != kept {
				t.Error("the state of the copy was cached for the node")
			}
		})
	}
}

// TestPredictionsInOrder checks that CPUs are predicted for pods in the order in which agents allocate:
// as they were bound, and last to those that request less than they ask for.
func TestPredictionsInOrder(t *testing.T) {
	p, node := barePlugin(t), nodeInfoOf("n", 8)
	reportMachine(t, p, "n", topology.Shape{CoresPerLLC: 8}.MustBuild(), 1)
	borrows := askingPod("borrows", 1)
	borrows.Spec.Containers[0].Resources.Requests = nil
	for _, bound := range []struct {
		pod     *corev1.Pod
		second  int64
		version string
	}{
		{borrows, 1, "1"}, {askingPod("assumed", 1), 0, "1"}, {askingPod("third", 1), 2, "10"}, {askingPod("second", 1), 2, "9"}, {askingPod("first", 1), 1, "20"},
	} {
		pod := bound.pod
		if pod.Spec.NodeName, pod.ResourceVersion = "n", bound.version; bound.second > 0 {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(bound.second, 0)}}
		}
		node.AddPod(pod)
	}
	got := lastingState(p, node).pods
	for i, name := range []types.UID{"first", "second", "third", "assumed", "borrows"} {
		if cpus := got[name].claim.Containers[0].CPUs; cpus != cpuset.Of(cpuset.CPU(i)) {
			t.Errorf("pod %s gets CPUs %s, want %d", name, cpus, i)
		}
	}
}

func podInfo(t *testing.T, pod *corev1.Pod) fwk.PodInfo {
	t.Helper()
	return must.Get(framework.NewPodInfo(pod))(t)
}

// Results of preemption's trials are neither cached nor part of the message.
func TestTrials(t *testing.T) {
	p, node := barePlugin(t), nodeInfoOf("n", 8)
	reportMachine(t, p, "n", topology.Shape{CoresPerLLC: 4, ThreadsPerCore: 2}.MustBuild(), 1)
	victim := askingPod("victim", 5)
	running := comeBack(t, assume(t, p, startCycle(t, p, victim, node), victim, node), node)

	pod := askingPod("pod", 7)
	state := startCycle(t, p, pod, node)
	refused := p.Filter(context.Background(), state, pod, node)
	const want = "has fewer than 7 exclusive CPUs left (most: 2 on n)"
	if refused.Message() != want {
		t.Fatalf("got %q, want %q", refused.Message(), want)
	}
	trial, without := state.Clone(), node.Snapshot().(*framework.NodeInfo)
	must.Do(t, without.RemovePod(klog.Background(), running))
	if status := p.RemovePod(context.Background(), trial, pod, podInfo(t, running), without); !status.IsSuccess() {
		t.Fatal(status)
	}
	if status := p.Filter(context.Background(), trial, pod, without); !status.IsSuccess() {
		t.Errorf("without the victim: %s", status.Message())
	}
	large := askingPod("large", 8)
	state = startCycle(t, p, large, node)
	refused = p.Filter(context.Background(), state, large, node)
	trial = state.Clone()
	p.RemovePod(context.Background(), trial, large, podInfo(t, running), without)
	p.Filter(context.Background(), trial, large, without)
	if got, want := refused.Message(), "has fewer than 8 exclusive CPUs left (most: 2 on n)"; got != want {
		t.Errorf("after the trial: %q, want %q", got, want)
	}
}

// A prediction that the agent confirms changes nothing: the state stays, and with it its answers. One that
// it does not confirm makes another state, and drops the ranks.
func TestPublished(t *testing.T) {
	p, node := barePlugin(t), nodeInfoOf("n", 8)
	reportMachine(t, p, "n", topology.Shape{CoresPerLLC: 4, ThreadsPerCore: 2}.MustBuild(), 1)
	first := askingPod("first", 3)
	assume(t, p, startCycle(t, p, first, node), first, node)
	pod := askingPod("pod", 2)
	c := startCycle(t, p, pod, node)
	if status := p.Filter(context.Background(), c, pod, node); !status.IsSuccess() {
		t.Fatal(status)
	}
	kept := lastingState(p, node)
	publish(t, p, node)
	if now := lastingState(p, node); now.books != kept.books || now.answers != kept.answers {
		t.Error("a confirmed prediction makes another state")
	}
	report := p.shared.reports.Of(node.Node())
	other := api.Allocations{"first": {Version: 1, Node: "n", Policy: placement.Static, Time: decided(),
		Containers: []api.ContainerAllocation{{Name: "app", CPUs: cpuset.Of(5, 6, 7), NUMANodes: []topology.NUMAID{0}}}}}
	obj := must.Get(nodetopology.FromMachine("n", report.Machine(), report.State))(t)
	p.shared.reports.Set(p.shared.reports.Read(withAllocations(t, obj, other)))
	p.published("n")
	if now := lastingState(p, node); now.books == kept.books || now.books.Exclusive() != cpuset.Of(5, 6, 7) {
		t.Errorf("CPUs %s are exclusive", now.books.Exclusive())
	}
	if _, known := must.Get(cycleOf(c))(t).ranks.find(node.GetGeneration()); known {
		t.Error("the rank of the wrong prediction stays")
	}
}

// Filter and Score run for many nodes in parallel while nodes report new topologies. Meant for the
// race detector.
func TestConcurrentUse(t *testing.T) {
	const nodes, pods = 8, 50
	p := barePlugin(t)
	machine := topology.Intel104().MustBuild()
	infos := make([]*framework.NodeInfo, nodes)
	for i := range infos {
		infos[i] = nodeInfoOf(fmt.Sprint("n", i), 104)
		reportMachine(t, p, infos[i].Node().Name, machine, 1)
	}
	done := make(chan struct{})
	var reporters sync.WaitGroup
	reporters.Go(func() {
		for version := 2; ; version++ {
			select {
			case <-done:
				return
			default:
				reportMachine(t, p, infos[version%nodes].Node().Name, machine, version)
			}
		}
	})
	for i := range pods {
		pod := askingPod(fmt.Sprint("p", i), 1+i%3)
		state := startCycle(t, p, pod, infos[0])
		var filters sync.WaitGroup
		for _, info := range infos {
			for range 4 { // nodes with nominated pods are filtered twice, and batches filter again
				filters.Go(func() {
					if status := p.Filter(context.Background(), state, pod, info); !status.IsSuccess() {
						t.Error(status.Message())
					}
					if _, status := p.Score(context.Background(), state, pod, info); !status.IsSuccess() {
						t.Error(status.Message())
					}
				})
			}
		}
		filters.Wait()
		assume(t, p, state, pod, infos[i%nodes])
	}
	close(done)
	reporters.Wait()
	for _, info := range infos {
		books := lastingState(p, info).books
		if len(books.Conflicts()) > 0 || len(books.Overflow()) > 0 {
			t.Errorf("%s: conflicts %v, overflow %v", info.Node().Name, books.Conflicts(), books.Overflow())
		}
	}
}

// Pods that name a node are bound to it without limit while no agent has allocated CPUs to them. Its books
// take time in proportion to their number, and one decision has less of it.
func TestManyWaiting(t *testing.T) {
	need.This(t, "the speed of this machine")
	for _, policy := range []string{"static", "static-burst"} {
		busy.Linear(t, 500, func(n int) func() {
			p, node := barePlugin(t), nodeInfoOf("n", 256)
			reportMachine(t, p, "n", topology.AMD256().MustBuild(), 1)
			for i := range n {
				pod := askingPod(fmt.Sprint("p", i), 1+i%40)
				pod.Spec.NodeName, pod.Annotations[api.CPUPolicyAnnotation] = "n", policy
				pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1m")}
				node.AddPod(pod)
			}
			report := p.shared.reports.Named("n")
			return func() { p.derive(node, report, stateUse{}) }
		})
	}
}
