package bandwidthtest

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/test/must"
)

func drawLimits(t *rapid.T) bandwidth.Limits {
	l := bandwidth.Limits{Quota: bandwidth.Unlimited, Period: time.Duration(rapid.IntRange(1, 100).Draw(t, "period")) * time.Millisecond}
	if rapid.IntRange(0, 9).Draw(t, "limited") > 0 {
		l.Quota = time.Duration(rapid.IntRange(1000, 200_000).Draw(t, "quota")) * time.Microsecond
		l.Burst = time.Duration(rapid.Int64Range(0, l.Quota.Microseconds()).Draw(t, "burst")) * time.Microsecond
	}
	return l
}

func newController(t testing.TB, l bandwidth.Limits) Controller {
	t.Helper()
	return must.Get(NewController(l))(t)
}

func drawDemand(t *rapid.T) time.Duration {
	if rapid.Bool().Draw(t, "idle") {
		return 0
	}
	return time.Duration(rapid.Int64Range(-1, int64(300*time.Millisecond)).Draw(t, "demand"))
}

// TestWritesAreFreeTime bounds what writes add to the long-run usage: one quota each, besides the
// bucket.
func TestWritesAreFreeTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimits(t)
		for l.Quota == bandwidth.Unlimited {
			l = drawLimits(t)
		}
		c := must.Get(NewController(l))(t)
		allowed := l.Quota + l.Burst
		for range rapid.IntRange(1, 50).Draw(t, "periods") {
			for range rapid.IntRange(0, 3).Draw(t, "writes") {
				c.Use(drawDemand(t))
				must.Do(t, c.Write(l))
				allowed += l.Quota
			}
			c.Step(drawDemand(t))
			allowed += l.Quota
			if used := c.Stats().Usage; used > allowed {
				t.Fatalf("used %v of %v", used, allowed)
			}
		}
	})
}

func TestInvalidLimits(t *testing.T) {
	ms := time.Millisecond
	good := bandwidth.Limits{Quota: 20 * ms, Period: 100 * ms, Burst: 20 * ms}
	for _, bad := range []bandwidth.Limits{
		{}, {Quota: ms, Period: ms - 1}, {Quota: ms, Period: time.Second + 1},
		{Quota: ms - 1, Period: 100 * ms}, {Quota: -2, Period: 100 * ms},
		{Quota: 20 * ms, Period: 100 * ms, Burst: 20*ms + 1}, {Quota: 20 * ms, Period: 100 * ms, Burst: -1},
		{Quota: bandwidth.MaxQuota, Period: 100 * ms, Burst: ms}, {Quota: 20*ms + 1, Period: 100 * ms},
	} {
		c := newController(t, good)
		before := c
		if err := c.Write(bad); err == nil || c != before {
			t.Errorf("%+v: error %v, state %+v after %+v", bad, err, c, before)
		}
		if _, err := NewController(bad); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
	for _, l := range []bandwidth.Limits{good, {Quota: bandwidth.Unlimited, Period: ms, Burst: time.Hour}} {
		if err := l.Validate(); err != nil {
			t.Error(err)
		}
	}
}
