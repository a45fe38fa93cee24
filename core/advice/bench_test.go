package advice

import (
	"testing"
	"time"

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
	b.Run("fine", func(b *testing.B) { // samples of 20 ms
		fine := *hour
		fine.Samples = nil
		for i, s := range hour.Samples {
			for j := range 5 {
				s := s
				s.Interval, s.Usage, s.At = period/5, s.Usage/5, time.Duration(5*i+j+1)*period/5
				fine.Samples = append(fine.Samples, s)
			}
		}
		for b.Loop() {
			if c, err := ForContainer(b.Context(), &fine, period/5, DefaultGoal(), seeded(1)); err != nil || !c.LimitWithBurst.Enough {
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
