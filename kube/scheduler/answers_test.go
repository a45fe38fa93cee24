package scheduler

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"pinfold.dev/pinfold/core/cpuset"
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
				lastingState(p, node)
				claim, _ := p.nodes.claimOf(node.Node(), assumed)
				want := resource.MustParse(request)
				if got := int64(claim.Containers[0].Request); got != want.MilliValue() {
					t.Errorf("request %s: %d thousandths of a CPU are booked", request, got)
				}
			}
			if same := keys[0] == keys[1]; same != test.same {
				t.Errorf("equal keys: %v, want %v", same, test.same)
			}
		})
	}
}

// Of 40 cores, each of which is a NUMA node, five have 7 threads online and the others 8. 155 CPUs in whole
// cores are all five and 15 others, and there are too many sets of 20 to try within the budget of a
// decision. Filter refuses the node and says so.
func TestFilterGivesUp(t *testing.T) {
	m := topology.Shape{NUMAPerPackage: 40, CoresPerLLC: 1, ThreadsPerCore: 8}.MustBuild().Without(cpuset.Range(315, 319))
	p, node := barePlugin(t), nodeInfoOf("n", 315)
	reportMachine(t, p, "n", m, 1)
	pod := askingPod("asks", 155)
	pod.Annotations[api.FullCoresAnnotation] = string(placement.FullCoresRequired)
	state := startCycle(t, p, pod, node)
	if status := p.Filter(t.Context(), state, pod, node); !strings.Contains(status.Message(), "too many ways to choose 155 CPUs") {
		t.Errorf("got %v", status)
	}
}
