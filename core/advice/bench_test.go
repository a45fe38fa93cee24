package advice

import (
	"testing"

	"pinfold.dev/pinfold/core/bandwidth"
)

// BenchmarkAdvice advises on an hour of exponential demand in periods of 100 ms.
func BenchmarkAdvice(b *testing.B) {
	hour := exponentialSeries(1, 36_000, .7, bandwidth.Limits{Quota: 2 * period, Period: period})
	b.Run("container", func(b *testing.B) {
		for b.Loop() {
			if c, err := ForContainer(b.Context(), hour, period, DefaultGoal(), seeded(1)); err != nil || !c.LimitWithBurst.Enough {
				b.Fatalf("%+v, %v", c, err)
			}
		}
	})
	b.Run("node", func(b *testing.B) {
		for b.Loop() {
			if n, err := ForNode(b.Context(), hour, period, 16, 2, DefaultGoal(), seeded(1)); err != nil || !n.Enough {
				b.Fatalf("%+v, %v", n, err)
			}
		}
	})
}
