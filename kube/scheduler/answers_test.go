package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/test/must"
)

// A question is answered once, and answers beyond the maximum are forgotten.
func TestAnswersAreCached(t *testing.T) {
	var all answers
	decided := false
	ask := func(i int) answer {
		return all.of(fmt.Sprint("question ", i), func() answer {
			decided = true
			return answer{use: i}
		})
	}
	for i := range 2*maxAnswers + 3 {
		decided = false
		if got := ask(i); !decided || got.use != i {
			t.Fatalf("question %d has the answer %+v, decided now: %t", i, got, decided)
		}
		decided = false
		if got := ask(i); decided || got.use != i {
			t.Fatalf("question %d asked again has the answer %+v, decided again: %t", i, got, decided)
		}
		if n := len(all.known); n > maxAnswers {
			t.Fatalf("%d answers are cached, want at most %d", n, maxAnswers)
		}
	}
}

// Two static pods that differ only in their requests, below their limits, ask the same question.
// Each is booked with its own request.
func TestRequestsOfStaticContainers(t *testing.T) {
	for _, test := range []struct {
		policy string
		same   bool
	}{{"static", true}, {"static-burst", false}} {
		t.Run(test.policy, func(t *testing.T) {
			p, node := barePlugin(t), nodeInfoOf("n", 8)
			reportMachine(t, p, "n", topology.Shape{CoresPerLLC: 8}.MustBuild(), 1)
			var keys []string
			for _, request := range []string{"1", "500m"} {
				pod := askingPod("pod-"+request, 2)
				pod.Annotations["pinfold.dev/cpu-policy"] = test.policy
				pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(request)}
				q := must.Get(newQuestion(pod))(t)
				keys = append(keys, q.key)
				assumed := assume(t, p, startCycle(t, p, pod, node), pod, node)
				res, ok := p.shared.reservations.of(assumed)
				if !ok {
					t.Fatal("no CPUs are reserved")
				}
				want := resource.MustParse(request)
				if got := int64(res.claim.Containers[0].Request); got != want.MilliValue() {
					t.Errorf("request %s: %d thousandths of a CPU are booked", request, got)
				}
			}
			if same := keys[0] == keys[1]; same != test.same {
				t.Errorf("equal keys: %v, want %v", same, test.same)
			}
		})
	}
}

// Static-burst pods overlap so that CPUs for some pods cannot be found within the budget of a
// decision, whether the machine's cores are alike or not. Filter refuses the node and says so. Score
// answers about a node that Filter accepts.
func TestFilterGivesUp(t *testing.T) {
	const nodes = 40
	for _, kinds := range []int{1, 8} {
		m := topology.Shape{NUMAPerPackage: nodes, CoresPerLLC: 1}.MustBuild()
		for i := range m.CPUs {
			m.CPUs[i].Kind = topology.ClockKind("", 1+i%kinds)
		}
		m.Kinds = topology.KindsOf(m.CPUs)
		p, node := barePlugin(t), nodeInfoOf("n", nodes)
		reportMachine(t, p, "n", m, 1)
		for i := range nodes {
			for _, stride := range []int{1, 7, 16} {
				pod := askingPod(fmt.Sprint("burst", i, "+", stride), 1)
				pod.Spec.NodeName = "n"
				pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1m")}
				ids := []topology.NUMAID{topology.NUMAID(i), topology.NUMAID((i + stride) % nodes)}
				slices.Sort(ids)
				pod.Annotations[api.AllocationAnnotation] = api.Allocation{Version: 1, Node: "n", Policy: placement.StaticBurst,
					Containers: []api.ContainerAllocation{{Name: "app", NUMANodes: ids}}}.Encode()
				node.AddPod(pod)
			}
		}
		scored, gaveUp := 0, 0
		for cpus := 1; cpus <= nodes; cpus++ {
			pod := askingPod("asks", cpus)
			state := startCycle(t, p, pod, node)
			switch status := p.Filter(t.Context(), state, pod, node); {
			case status.IsSuccess():
				if rank, status := p.Score(t.Context(), state, pod, node); rank > 0 && status.IsSuccess() {
					scored++
				}
			case strings.Contains(status.Message(), "overlap in too many ways"):
				gaveUp++
			}
		}
		if scored < 10 || gaveUp == 0 {
			t.Errorf("%d kinds of core: %d pods are accepted and scored, %d searches given up: want at least 10, and 1", kinds, scored, gaveUp)
		}
	}
}
