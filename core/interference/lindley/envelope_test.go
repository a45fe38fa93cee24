package lindley

import (
	"math/rand/v2"
	"testing"

	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/test/must"
)

// TestEnvelopes checks that a tail is between its envelopes, at and between the lattice points, and
// that these differ by O(1/n^2) on average.
func TestEnvelopes(t *testing.T) {
	shapes := []func(u float64) (Unimodal, error){
		func(u float64) (Unimodal, error) { return demand.NewExponential(u) },
		func(u float64) (Unimodal, error) { return demand.NewPareto(4, u) },
		func(u float64) (Unimodal, error) { return demand.NewTruncatedPareto(2, u, 3.3) },
		func(u float64) (Unimodal, error) { return demand.NewGamma(.5, u) },
		func(u float64) (Unimodal, error) { return demand.NewGamma(1.5, u) },
		func(u float64) (Unimodal, error) { return demand.NewGamma(9, u) },
		func(u float64) (Unimodal, error) { return demand.NewLognormal(.3, u) },
	}
	const n, horizon = 32, 8
	r := rand.New(rand.NewPCG(1, 2))
	for i, shape := range shapes {
		for _, u := range []float64{.1, .33, .7, .9} {
			d := must.Get(shape(u))(t)
			within := cut{Distribution: d, horizon: horizon, beyond: tail(d, horizon)}
			below, above := envelopes(within, d.Mode(), n, horizon)
			apart := 0.0
			for range 20000 {
				x := r.Float64() * (horizon + 1)
				low, at, high := linear(below, x*n), tail(within, x), linear(above, x*n)
				if low > at+1e-13 || high < at-1e-13 {
					t.Fatalf("shape %d u=%v: P(X > %v) is %v, not from %v to %v", i, u, x, at, low, high)
				}
				apart += (high - low) * (horizon + 1) / 20000
			}
			if limit := 6.0 / u / n / n; apart > limit {
				t.Errorf("shape %d u=%v: the envelopes differ by %v, more than %v", i, u, apart, limit)
			}
		}
	}
}
