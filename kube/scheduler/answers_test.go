package scheduler

import (
	"fmt"
	"testing"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"pinfold.dev/pinfold/core/topology"
)

func TestAnswersAreKept(t *testing.T) {
	var all answers
	given := map[int]*answer{}
	key := func(i int) questionKey { return unique.Make(fmt.Sprint("question ", i)) }
	for i := range 2*maxAnswers + 3 {
		if all.find(key(i)) != nil {
			t.Fatalf("question %d has an answer before it was asked", i)
		}
		given[i] = all.add(answer{key: key(i), use: i})
		if all.find(key(i)) != given[i] {
			t.Fatalf("the answer to question %d is not found", i)
		}
		if n := len(all.keys); n > maxAnswers {
			t.Fatalf("%d answers are kept, want at most %d", n, maxAnswers)
		}
	}
	// Those that somebody holds stay as they were given, kept or not.
	for i, a := range given {
		if a.use != i || a.key != key(i) {
			t.Errorf("answer %d has become %+v", i, *a)
		}
	}
}

// Two pods that differ in a request that does not count are one question. What each
// gets, it gets with its own request.
func TestRequestsOfStaticContainers(t *testing.T) {
	for _, test := range []struct {
		policy string
		same   bool
	}{{"static", true}, {"static-burst", false}} {
		t.Run(test.policy, func(t *testing.T) {
			p, node := barePlugin(t), nodeInfoOf("n", 8)
			reportMachine(t, p, "n", topology.Shape{CoresPerLLC: 8}.MustBuild(), 1)
			var keys []questionKey
			for _, request := range []string{"2", "500m"} {
				pod := askingPod("pod-"+request, 2)
				pod.Annotations["pinfold.dev/cpu-policy"] = test.policy
				pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(request)}
				q, err := newQuestion(pod)
				if err != nil {
					t.Fatal(err)
				}
				keys = append(keys, q.key)
				assumed := assume(t, p, startCycle(t, p, pod, node), pod, node)
				res, ok := p.shared.reservations.of(assumed)
				if !ok {
					t.Fatal("nothing is reserved")
				}
				want := resource.MustParse(request)
				if got := int64(res.claim.Containers[0].Request); got != want.MilliValue() {
					t.Errorf("request %s: %d thousandths are booked", request, got)
				}
			}
			if same := keys[0] == keys[1]; same != test.same {
				t.Errorf("one question: %v, want %v", same, test.same)
			}
		})
	}
}
