package interference

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pinfold.dev/pinfold/core/demand"
)

// streams returns the random sources of a seed.
func streams(seed uint64) func(uint64) *rand.Rand {
	return func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
}

// BenchmarkMonteCarlo runs one replica on one core with all statistics; compare BenchmarkSlow.
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
				if err := r.steps(b.Context(), int64(b.N), func(int64) {}); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(m*float64(b.N)/b.Elapsed().Seconds(), "cgroup-periods/s")
			})
		}
	}
}

// BenchmarkMixed runs the engine for any groups.
func BenchmarkMixed(b *testing.B) {
	const m = 20
	d := independent(exponential(b, 0.7))
	p, err := newPlan(Config{Periods: 1, Workers: 1, Random: streams(1), Groups: []Group{
		{Count: m / 2, Quota: 1, Burst: 1, Demand: d}, {Count: m / 2, Quota: 2, Burst: 1, Demand: d}}})
	if err != nil {
		b.Fatal(err)
	}
	r := &replica{engine: p.newEngine(streams(1)(1)), plan: p}
	if err := r.steps(b.Context(), int64(b.N), func(int64) {}); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(m*float64(b.N)/b.Elapsed().Seconds(), "cgroup-periods/s")
}

// BenchmarkSlow runs the reference implementation with math/rand.
func BenchmarkSlow(b *testing.B) {
	for _, load := range []float64{0.5, 0.7, 0.9} {
		b.Run(fmt.Sprintf("exponential/u=%v", load), func(b *testing.B) {
			const m = 20
			s, random, d := &slow{capacity: m * quotaTicks, groups: make([]slowGroup, m)}, streams(1)(1), exponential(b, load)
			for i := range s.groups {
				s.groups[i] = slowGroup{quota: quotaTicks, burst: quotaTicks, token: quotaTicks}
			}
			demands := make([]int64, m)
			for range b.N {
				for i := range demands {
					demands[i] = int64(d.Draw(random) * quotaTicks)
				}
				s.step(demands)
			}
			b.ReportMetric(m*float64(b.N)/b.Elapsed().Seconds(), "cgroup-periods/s")
		})
	}
}

// kindOf returns m identical groups with a quota of quotaTicks.
func kindOf(m int, p demand.Process) planKind {
	return newPlanKind(Group{Count: m, Quota: 1, Burst: 1, Demand: p}, quotaTicks, roomTicks)
}

func exponential(tb testing.TB, mean float64) demand.Distribution {
	tb.Helper()
	d, err := demand.NewExponential(mean)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func pareto(tb testing.TB, shape, mean float64) demand.Distribution {
	tb.Helper()
	d, err := demand.NewPareto(shape, mean)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}
