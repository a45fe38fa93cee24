package advice

import (
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
)

// TestContradictedByTheKernel: a limit is not called sufficient if the kernel throttled half of the
// periods, although never more than nine tenths of the quota were used.
func TestContradictedByTheKernel(t *testing.T) {
	for _, c := range []struct {
		name           string
		throttledEvery int
		enough         bool
	}{{"often", 2, false}, {"once in a while", 50, true}} {
		s := &trace.Series{Group: "/group"}
		for i := range 3000 {
			sample := trace.Sample{At: time.Duration(i+1) * trace.DefaultPeriod, Interval: trace.DefaultPeriod, Usage: 9 * time.Millisecond, Periods: 1,
				Limits: bandwidth.Limits{Quota: 10 * time.Millisecond, Period: trace.DefaultPeriod}}
			if i%c.throttledEvery == 0 {
				sample.Throttled, sample.ThrottledTime = 1, time.Millisecond
			}
			s.Samples = append(s.Samples, sample)
		}
		got, err := ForContainer(t.Context(), s, trace.DefaultPeriod, DefaultGoal(), seeded(1))
		if err != nil {
			t.Fatal(err)
		}
		for name, f := range map[string]Finding{"limit": got.LimitWithoutBurst.Finding, "limit with burst": got.LimitWithBurst.Finding, "burst": got.Burst.Finding, "period": got.Period.Finding} {
			if f.Enough != c.enough || !c.enough && !strings.Contains(f.Reason, "the kernel throttled it in 50% of the periods, but the replay at the same limit in 0%") {
				t.Errorf("throttled %s: %s: enough %v: %s", c.name, name, f.Enough, f.Reason)
			}
		}
		if !c.enough && len(got.Warnings) > 0 && strings.Contains(strings.Join(got.Warnings, "\n"), "too high") {
			t.Errorf("too high and too low at the same time: %q", got.Warnings)
		}
	}
}
