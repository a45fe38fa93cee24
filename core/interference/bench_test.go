package interference

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/test/must"
)

// streams returns the random sources of a seed.
func streams(seed uint64) func(uint64) *rand.Rand {
	return func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
}

// BenchmarkMonteCarlo runs one replica on one core with all statistics.
func BenchmarkMonteCarlo(b *testing.B) {
	for _, load := range []float64{0.5, 0.7, 0.9} {
		for _, shape := range []float64{0, 4} {
			d, name := exponential(b, load), "exponential"
			if shape > 0 {
				d, name = pareto(b, shape, load), "pareto"
			}
			b.Run(fmt.Sprintf("%s/u=%v", name, load), func(b *testing.B) {
				const m = 20
				a := newUniform(m, Strict, quotaTicks, newDrawer(kindOf(m, independent(d)), roomTicks/m, streams(1)(1)))
				r := &replica{engine: a, plan: &plan{groups: m}}
				must.Do(b, r.steps(b.Context(), int64(b.N), func(int64) {}))
				b.ReportMetric(m*float64(b.N)/b.Elapsed().Seconds(), "cgroup-periods/s")
			})
		}
	}
}

// kindOf returns m identical groups with a quota of quotaTicks.
func kindOf(m int, p demand.Process) planKind {
	return newPlanKind(Group{Count: m, Quota: 1, Burst: 1, Demand: p}, quotaTicks, 0, roomTicks)
}

func exponential(tb testing.TB, mean float64) demand.Distribution {
	tb.Helper()
	return must.Get(demand.NewExponential(mean))(tb)
}

func pareto(tb testing.TB, shape, mean float64) demand.Distribution {
	tb.Helper()
	return must.Get(demand.NewPareto(shape, mean))(tb)
}
