package interference

import (
	"errors"
	"math"
	"testing"

	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/core/interference/lindley"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/test/race"
)

// TestAgainstExact compares the throttle ratio of 100 groups in both engines with the numerical
// solution for one group, which is independent of the others.
func TestAgainstExact(t *testing.T) {
	need.This(t, "a long time")
	race.SkipLong(t)
	gamma, err1 := demand.NewGamma(0.5, 0.6)
	lognormal, err2 := demand.NewLognormal(0.8, 0.7)
	poisson, err3 := demand.NewPoisson(0.7, 10)
	must.Do(t, errors.Join(err1, err2, err3))
	for name, d := range map[string]demand.Distribution{
		"little": exponential(t, 0.3), "exponential": exponential(t, 0.7), "much": exponential(t, 0.9), "pareto": pareto(t, 4, 0.7), "gamma": gamma, "lognormal": lognormal, "poisson": poisson,
	} {
		bursts := []float64{0, 1, 2}
		exact, err := lindley.Solve(d, bursts, 0)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i, burst := range bursts {
			want := exact.Throttling[i]
			for engine, capacity := range map[string]float64{"uniform": 0, "mixed": 150} {
				got := simulate(t, Config{Groups: oneKind(100, burst, independent(d)), Capacity: capacity, Periods: 50_000}).Groups[0].ThrottleRatio
				z := (got.Value - want.Probability) / got.StandardError
				t.Logf("%s, burst %v: %.6f (standard error %.2g), exact %.6f: %.2f standard errors", name, burst, got.Value, got.StandardError, want.Probability, z)
				if !(math.Abs(z) < 4) && !(got.Value > want.Lower && got.Value < want.Upper) {
					t.Errorf("%s, burst %v, %s: %v, exact %v", name, burst, engine, got, want)
				}
			}
		}
	}
}
