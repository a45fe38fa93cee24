package lindley_test

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/core/interference/lindley"
)

// Where few periods miss their deadline under the strict rule, the aggregate is within 4% of
// what simulation finds.
func TestAggregateIsNearSimulation(t *testing.T) {
	for _, c := range []struct {
		groups int
		demand string
		burst  float64
	}{
		{5, "exponential .5", 1}, {5, "exponential .5", 2}, {5, "pareto 4 .7", 1}, {5, "gamma 4 .7", 1},
		{20, "exponential .7", 1}, {20, "exponential .7", 2}, {20, "exponential .7", math.Inf(1)}, {20, "pareto 4 .9", 1},
		{50, "exponential .8", 1}, {50, "lognormal .8 .8", 2},
	} {
		d := must(t, strings.Fields(c.demand)...)
		got, err := lindley.Aggregate(d, c.groups, c.burst)
		if err != nil {
			t.Fatal(err)
		}
		simulated, err := interference.Simulate(context.Background(), interference.Config{
			Groups:  []interference.Group{{Count: c.groups, Quota: 1, Burst: c.burst, Demand: demand.Independent{Distribution: d}}},
			Rule:    interference.Strict,
			Periods: 500_000,
			Random:  func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(7, n)) },
			Workers: 2,
		})
		if err != nil {
			t.Fatal(err)
		}
		want, deviation := 1-simulated.ProbabilityWCET1.Value, simulated.ProbabilityWCET1.StandardError
		t.Logf("%d x %s burst %v: aggregate %.3f%%, simulated %.3f%% +- %.3f%%", c.groups, c.demand, c.burst, 100*got, 100*want, 100*deviation)
		if math.Abs(got-want) > .04*want+4*deviation {
			t.Errorf("%d x %s burst %v: aggregate %v, simulated %v +- %v", c.groups, c.demand, c.burst, got, want, deviation)
		}
	}
}
