package bandwidth_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/bandwidth/bandwidthtest"
	"pinfold.dev/pinfold/test/must"
)

// TestNextDebt compares the debt with the backlog of the full model, period by period.
func TestNextDebt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		microseconds := func(name string, most int) time.Duration {
			return time.Duration(rapid.IntRange(0, most).Draw(t, name)) * time.Microsecond
		}
		limits := bandwidth.Limits{Quota: bandwidth.MinQuota + microseconds("quota", 200_000), Period: 100 * time.Millisecond}
		limits.Burst = microseconds("burst", int(limits.Quota/time.Microsecond))
		c := must.Get(bandwidthtest.NewController(limits))(t)
		var debt time.Duration
		for range rapid.IntRange(1, 60).Draw(t, "periods") {
			demand := microseconds("demand", 400_000)
			debt = bandwidth.NextDebt(debt, demand, limits.Quota)
			before := c.Stats().Throttled
			c.Step(demand)
			if got := max(debt-limits.Burst, 0); got != c.Backlog() {
				t.Fatalf("the debt of %v, with a burst of %v, is a backlog of %v, want %v", debt, limits.Burst, got, c.Backlog())
			}
			if throttled := c.Stats().Throttled > before; (debt > limits.Burst) != throttled {
				t.Fatalf("the debt is %v, the burst %v, throttled %v", debt, limits.Burst, throttled)
			}
		}
	})
}
