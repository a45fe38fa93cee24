package api

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology/topologytest"
)

// phases returns the containers of each phase of a pod's life, in the obvious way: each ordinary
// init container with the sidecars before it, each sidecar's start, and last all sidecars with the
// main containers.
func phases(pod *corev1.Pod) [][]corev1.Container {
	var all [][]corev1.Container
	var sidecars []corev1.Container
	for _, c := range pod.Spec.InitContainers {
		all = append(all, append(slices.Clone(sidecars), c))
		if c.RestartPolicy != nil {
			sidecars = append(sidecars, c)
		}
	}
	return append(all, append(slices.Clone(sidecars), pod.Spec.Containers...))
}

func isWhole(c corev1.Container) bool {
	limit := c.Resources.Limits.Cpu().MilliValue()
	return limit > 0 && limit%1000 == 0
}

// The shared request is the largest sum of the requests of the shared containers in any phase, and
// at least the rest of the pod's request.
func TestSharedRequestAgreesWithPhases(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := drawPod(t, 6)
		asks := placed(pod)
		var shared, ownPeak, total int64
		for _, phase := range phases(pod) {
			var others, own, cpus int64
			for _, c := range phase {
				if request := c.Resources.Requests.Cpu().MilliValue(); isWhole(c) {
					own += request
					cpus += c.Resources.Limits.Cpu().Value()
				} else {
					others += request
				}
			}
			shared, ownPeak, total = max(shared, others), max(ownPeak, own), max(total, cpus)
		}
		shared += pod.Spec.Overhead.Cpu().MilliValue()
		if pod.Spec.Resources != nil {
			all := phases(pod)
			left := pod.Spec.Resources.Requests.Cpu().MilliValue() + pod.Spec.Overhead.Cpu().MilliValue()
			for _, c := range all[len(all)-1] {
				if isWhole(c) {
					left -= c.Resources.Requests.Cpu().MilliValue()
				}
			}
			shared = max(shared, left)
		}
		got := int64(sharedRequest(pod, asks))
		if got != shared {
			t.Fatalf("shared request %d, want %d", got, shared)
		}
		if counted := int64(EffectiveRequest(pod)); got+ownPeak < counted {
			t.Fatalf("shared request %d and own requests %d are less than the %d that kube-scheduler counts", got, ownPeak, counted)
		}
		if n := (&ledger.Ask{Containers: asks}).CPUs(); int64(n) != total {
			t.Fatalf("%d CPUs, want %d", n, total)
		}
	})
}

// decide places a random pod on a random, empty machine as the scheduler does. It returns false if
// the pod does not fit or is invalid.
func decide(t *rapid.T) (*corev1.Pod, *placement.Index, ledger.Decision, bool) {
	m := topologytest.Random(t)
	index := placement.NewIndex(m)
	pod := drawPod(t, 3)
	intent, err := Parse(pod)
	if err != nil && !strings.Contains(err.Error(), " asks for CPUs, but ") {
		t.Fatal(err)
	}
	if err != nil {
		return nil, nil, ledger.Decision{}, false
	}
	decision, err := ledger.New(index, ledger.Config{}).Decide(intent.Ask)
	return pod, index, decision, err == nil
}

// A decision that was encoded and parsed again gives the same claim.
func TestDecisionsSurviveTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod, index, decision, ok := decide(t)
		if !ok {
			t.Skip()
		}
		m := index.Machine()
		text := NewAllocation("n1", m, decision).Encode()
		pod.Annotations[allocatedKey] = text
		pod.Spec.NodeName = "n1"
		claim, err := claimOfText(pod, m)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		want := decision.Claim("uid-1", Allocation{}.Rank())
		if diff := cmp.Diff(want, claim, cmpopts.EquateEmpty(), cmp.Comparer(func(a, b cpuset.Set) bool { return a == b })); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", text, diff)
		}
		a, err := DecodeAllocation(text)
		if err != nil || a.Encode() != text {
			t.Fatalf("%s is encoded again as %s, %v", text, a.Encode(), err)
		}
		books := ledger.New(index, ledger.Config{}, claim)
		if len(books.Conflicts()) > 0 {
			t.Fatalf("%s: the books reject it: %v", text, books.Conflicts())
		}
	})
}
