package interference

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/test/must"
)

// TestStaggeredTogether compares the engine whose quotas are all refilled at the end of a period
// with that for periods that begin together.
func TestStaggeredTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds, total := drawKinds(t, 2)
		capacity := int64(total * rapid.SampledFrom([]float64{0.6, 0.9, 1, 1, 1.3}).Draw(t, "capacity"))
		want := newMixed(Strict, capacity, kinds[0])
		got := newStaggered(capacity, kinds[1], slices.Repeat([]float64{1}, len(want.need)))
		differ := 0
		for n := range steps {
			together, staggered := must.Get(want.step())(t), must.Get(got.step())(t)
			if together != staggered {
				differ++
			}
			for i := range want.need {
				closeTo(t, n, "need", float64(got.each[i].need), float64(want.need[i]))
				closeTo(t, n, "tokens", float64(got.each[i].budget), float64(want.token[i]+got.each[i].kind.quota))
			}
		}
		if differ > 1 { // where the divisions are rounded differently
			t.Errorf("%d of %d periods have different outcomes", differ, steps)
		}
	})
}

// TestStaggeredAgainstSteps compares the engine with small steps of time, in each of which the
// groups that may run share the capacity.
func TestStaggeredAgainstSteps(t *testing.T) {
	const parts = 400
	rapid.Check(t, func(t *rapid.T) {
		kinds, total := drawKinds(t, 2)
		capacity := total * rapid.SampledFrom([]float64{0.6, 0.9, 1, 1.3}).Draw(t, "capacity")
		m := kinds[0][len(kinds[0])-1].end
		phases := make([]float64, m) // whole parts
		for i := range phases {
			phases[i] = float64(rapid.IntRange(0, parts).Draw(t, "phase")) / parts
		}
		x := newStaggered(int64(capacity), kinds[0], phases)
		need, budget := make([]float64, m), make([]float64, m)
		for i, g := range x.each {
			budget[i] = float64(g.budget)
		}
		for n := range 50 {
			must.Get(x.step())(t)
			for i, d := range nextPeriod(t, kinds[1]) {
				need[i] += float64(d)
			}
			for part := range parts + 1 {
				for i, g := range x.each {
					if k := g.kind; math.Round(phases[i]*parts) == float64(part) {
						budget[i] = min(budget[i]+float64(k.quota), float64(k.quota+k.burst))
					}
				}
				if part < parts {
					process(need, budget, x.weights, capacity/parts)
				}
			}
			for i, g := range x.each {
				if off := math.Abs(float64(g.need) - need[i]); off > capacity/parts {
					t.Fatalf("period %d, group %d: need %d, in small steps %.0f", n, i, g.need, need[i])
				}
			}
		}
	})
}

// process lets groups share a part of the capacity in proportion to their weights.
func process(need, budget, weights []float64, left float64) {
	for {
		open := 0.
		for i := range need {
			if need[i] > 0 && budget[i] > 0 {
				open += weights[i]
			}
		}
		if open == 0 || left < 1 {
			return
		}
		share := left / open
		for i := range need {
			if got := min(need[i], budget[i], share*weights[i]); got > 0 {
				need[i], budget[i], left = need[i]-got, budget[i]-got, left-got
			}
		}
	}
}

// TestStaggered compares results with those of periods that begin together: a group that does not
// miss CPU time is throttled as often, if it is throttled at all, and the capacity is used more
// evenly.
func TestStaggered(t *testing.T) {
	c := Config{Groups: []Group{{Count: 5, Quota: 1, Burst: 1, Demand: demand.Independent{Distribution: must.Get(demand.NewExponential(.7))(t)}}},
		Periods: 200_000, Workers: 2, Random: streams(1)}
	together := must.Get(Simulate(t.Context(), c))(t)
	c.Rule = Staggered
	staggered := must.Get(Simulate(t.Context(), c))(t)
	t.Logf("together %+v\nstaggered %+v", together, staggered)
	if missed, more := 1-together.ProbabilityWCET1.Value, 1-staggered.ProbabilityWCET1.Value; more < missed {
		t.Errorf("%g missed together, %g staggered", missed, more)
	}
	if together.Full.Value >= staggered.Full.Value {
		t.Errorf("full: %+v together, %+v staggered", together.Full, staggered.Full)
	}
}
