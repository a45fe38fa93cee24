package nodeplan

import (
	"fmt"
	"testing"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// BenchmarkPlan plans 250 containers of 125 pods, one in ten static-burst, on a machine of 256
// CPUs: without previous sets, and without any change.
func BenchmarkPlan(b *testing.B) {
	s := State{Index: placement.NewIndex(topology.AMD256().MustBuild())}
	for i := range 125 {
		p := Pod{ID: ledger.PodID(fmt.Sprintf("pod%03d", i)), Tier: Burstable, Containers: []Container{
			{Name: "main", Phase: Running, Limit: 2000}, {Name: "side", Phase: Running, Limit: 500}}}
		switch i % 10 {
		case 0:
			p.Claim.Containers = []ledger.ContainerClaim{{Name: "main", Limit: 2, Policy: placement.Static,
				CPUs: cpuset.Of(cpuset.CPU(i/10), cpuset.CPU(i/10+128))}}
		case 1:
			p.Claim.Containers = []ledger.ContainerClaim{{Name: "main", Limit: 12, Policy: placement.StaticBurst,
				NUMANodes: []topology.NUMAID{topology.NUMAID(i / 10 % 8)}}}
		}
		s.Pods = append(s.Pods, p)
	}
	steady := s
	steady.Previous = Plan(s).CoreSets
	for name, state := range map[string]State{"from=nothing": s, "from=same": steady} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Plan(state)
			}
		})
	}
}
