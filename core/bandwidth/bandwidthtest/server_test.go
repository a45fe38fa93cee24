package bandwidthtest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/test/must"
)

// TestServerIsController gives every request its own CPU and at most half a period of work, so only
// the bucket limits it. Writes are in the middle of periods.
func TestServerIsController(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimits(t)
		const periods, most = 20, 3
		c, errC := NewController(l)
		s, errS := NewServer(periods*most, 0, l)
		must.Do(t, errors.Join(errC, errS))
		for p := range time.Duration(periods) {
			var demand time.Duration
			for range rapid.IntRange(0, most).Draw(t, "requests") {
				work := time.Duration(rapid.Int64Range(1, int64(l.Period/2)).Draw(t, "work"))
				s.Submit(work)
				demand += work
			}
			c.Use(demand)
			if rapid.Bool().Draw(t, "write") {
				next := drawLimits(t)
				next.Period = l.Period
				s.Advance(p*l.Period + l.Period/2)
				must.Do(t, errors.Join(c.Write(next), s.Write(next)))
				c.Use(0)
			}
			c.Tick()
			s.Advance((p + 1) * l.Period)
			got := s.Stats()
			got.ThrottledTime = 0
			if diff := cmp.Diff(c.Stats(), got); diff != "" || c.Backlog() != s.Backlog() {
				t.Fatalf("backlog %v and %v, stats: -controller +server\n%s", c.Backlog(), s.Backlog(), diff)
			}
		}
	})
}

// TestThrottledTime: four threads of 200 ms with a limit of 2 CPUs run in half of each period.
func TestThrottledTime(t *testing.T) {
	s := must.Get(NewServer(4, 0, bandwidth.Limits{Quota: 200 * time.Millisecond, Period: 100 * time.Millisecond}))(t)
	for range 4 {
		s.Submit(200 * time.Millisecond)
	}
	s.Advance(time.Second)
	want := Stats{WallPeriods: 10, Periods: 5, Throttled: 3, Usage: 800 * time.Millisecond, ThrottledTime: 600 * time.Millisecond}
	if got := s.Stats(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
