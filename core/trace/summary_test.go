package trace_test

import (
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
)

// TestMorePeriodsThanTime: eleven periods may end within the time of ten and a half, and a
// throttled period may be counted before the timer's.
func TestMorePeriodsThanTime(t *testing.T) {
	for _, counts := range []struct{ periods, throttled uint32 }{{11, 11}, {11, 12}, {10, 11}} {
		s := trace.Series{Group: "/a", Samples: []trace.Sample{{
			At: 1050 * time.Millisecond, Interval: 1050 * time.Millisecond, Periods: counts.periods, Throttled: counts.throttled,
			Limits: bandwidth.Limits{Quota: time.Millisecond, Period: 100 * time.Millisecond},
		}}}
		sum := trace.Summarise(&s, 100*time.Millisecond)
		if sum.ThrottledOfTimer() != 1 || sum.ThrottledOfWall() != 1 {
			t.Errorf("%+v: throttled in %v of timer periods and in %v of wall periods, want all", counts, sum.ThrottledOfTimer(), sum.ThrottledOfWall())
		}
		if want := max(10.5, float64(counts.periods)); sum.WallPeriods != want {
			t.Errorf("%+v: %v wall periods, want %v", counts, sum.WallPeriods, want)
		}
	}
}
