package ledger

import (
	"fmt"
	"testing"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// benchPods is the kubelet's default maximum of pods.
const benchPods = 110

// busyNode returns a machine with benchPods pods: one in five static, one in five static-burst, the
// others in the shared CPUs.
func busyNode(b *testing.B, shape topology.Shape) (*placement.Index, Config, []Claim) {
	index := placement.NewIndex(shape.MustBuild())
	config := Config{Reserved: 2000, ReservedCPUs: cpuset.Of(0, 1), MinShared: 2}
	books := New(index, config)
	for i := range benchPods {
		ask := Ask{SharedRequest: 50}
		switch i % 5 {
		case 0:
			ask.Containers = []ContainerAsk{{Name: "main", CPUs: 1 + i%3, Request: 1000}}
		case 1:
			ask.Policy = placement.StaticBurst
			ask.Containers = []ContainerAsk{{Name: "main", CPUs: 2 + i%32, Request: 200}}
		}
		d, err := books.Decide(ask)
		if err != nil {
			b.Fatalf("pod %d: %v", i, err)
		}
		books.Add(d.Claim(PodID(fmt.Sprintf("8c9e5a3e-1f0b-4d62-9a57-%012d", i*7919%benchPods)), int64(i)))
	}
	return index, config, books.Claims()
}

func onBusyNodes(b *testing.B, run func(b *testing.B, index *placement.Index, config Config, claims []Claim)) {
	for _, machine := range []struct {
		name  string
		shape topology.Shape
	}{{"cpus=104", topology.Intel104()}, {"cpus=256", topology.AMD256()}} {
		b.Run(machine.name, func(b *testing.B) {
			index, config, claims := busyNode(b, machine.shape)
			b.ReportAllocs()
			run(b, index, config, claims)
		})
	}
}

// BenchmarkRebuild measures what the scheduler does for a node that has changed: it rebuilds the
// books and makes one decision.
func BenchmarkRebuild(b *testing.B) {
	ask := Ask{Containers: []ContainerAsk{{Name: "main", CPUs: 4, Request: 1000}}}
	onBusyNodes(b, func(b *testing.B, index *placement.Index, config Config, claims []Claim) {
		for b.Loop() {
			if _, err := New(index, config, claims...).Decide(ask); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkAdd adds the same claims one by one, without a decision.
func BenchmarkAdd(b *testing.B) {
	onBusyNodes(b, func(b *testing.B, index *placement.Index, config Config, claims []Claim) {
		for b.Loop() {
			books := New(index, config)
			for _, c := range claims {
				books.Add(c)
			}
		}
	})
}

// BenchmarkDecide decides about one pod. The worst case is a refusal, which computes the largest
// number of CPUs that the pod could get.
func BenchmarkDecide(b *testing.B) {
	one := func(policy placement.Policy, n int) Ask {
		return Ask{Policy: policy, Containers: []ContainerAsk{{Name: "main", CPUs: n, Request: 1000}}}
	}
	for _, pod := range []struct {
		name    string
		ask     Ask
		refused bool
	}{
		{"pod=shared", Ask{SharedRequest: 100}, false},
		{"pod=static4", one(placement.Static, 4), false},
		{"pod=static16", one(placement.Static, 16), false},
		{"pod=three-containers", Ask{Containers: []ContainerAsk{{Name: "proxy", Role: RoleSidecar, CPUs: 1},
			{Name: "setup", Role: RoleInit, CPUs: 6}, {Name: "main", CPUs: 4}}}, false},
		{"pod=static-burst8", one(placement.StaticBurst, 8), false},
		{"pod=refused", one(placement.Static, 250), true},
	} {
		b.Run(pod.name, func(b *testing.B) {
			onBusyNodes(b, func(b *testing.B, index *placement.Index, config Config, claims []Claim) {
				books := New(index, config, claims...)
				for b.Loop() {
					if _, err := books.Decide(pod.ask); (err != nil) != pod.refused {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
