package needed

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/bandwidth/bandwidthtest"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/test/must"
)

const period = trace.DefaultPeriod

// TestLimits: the share of periods that need more than a limit is that of the periods that this limit
// throttles, with a burst of the same size.
func TestLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cpus := rapid.SliceOfN(rapid.Float64Range(0, 8), 1, 100).Draw(t, "CPUs")
		bucket := rapid.IntRange(lowest, highest-1).Draw(t, "limit")
		const unit = 1 << 40
		quota, debt, throttled := int64(upper(bucket)*unit), int64(0), 0
		var m Meter
		need := 0
		for i, c := range cpus {
			cpus[i] = math.Round(c*1024) / 1024 // exact in both
			if debt = bandwidth.NextDebt(debt, int64(cpus[i]*unit), quota); debt > quota {
				throttled++
			}
			if m.next(cpus[i]) > upper(bucket) {
				need++
			}
		}
		if need != throttled {
			t.Fatalf("a limit of %v throttles %d of %v, and %d need more", upper(bucket), throttled, cpus, need)
		}
	})
}

// TestThrottled: what a container wanted is found although it was throttled, and none of what it used is
// lost.
func TestThrottled(t *testing.T) {
	limits := bandwidth.Limits{Quota: 50 * time.Millisecond, Period: period}
	s := must.Get(bandwidthtest.NewServer(4, 0, limits))(t)
	var before bandwidthtest.Stats
	var m Meter
	var used time.Duration
	var wanted, most float64
	for n := range time.Duration(300) {
		if n%20 == 3 { // 1.6 CPUs in one period, 0.08 on average
			for range 4 {
				s.Submit(40 * time.Millisecond)
			}
		}
		s.Advance((n + 1) * period)
		now := s.Stats()
		sample := now.Sample(before, (n+1)*period, period, limits)
		before, used = now, used+sample.Usage
		m.Add(&sample, func(p Period) {
			wanted += p.CPUs * period.Seconds()
			most = max(most, p.CPUs)
		})
	}
	if off := math.Abs(wanted - used.Seconds()); off > 1e-6 {
		t.Errorf("%v s wanted, and %v used", wanted, used)
	}
	if most < 1.2 || most > 1.7 {
		t.Errorf("at most %v CPUs wanted, want about 1.6", most)
	}
}

// TestGaps: samples are missing, late ones are several periods, and what is throttled for an hour is not held
// for all that time.
func TestGaps(t *testing.T) {
	var m Meter
	n := 0
	add := func(at, interval time.Duration, throttled uint32) {
		m.Add(&trace.Sample{At: at, Interval: interval, Late: interval > period, Usage: interval / 2, Throttled: throttled, ThrottledTime: interval / 2 * time.Duration(throttled)}, func(Period) { n++ })
	}
	add(period, period, 1)
	add(2*period, period, 0)
	add(10*period, period, 0) // eight are missing
	if n != 2 {
		t.Errorf("%d periods before the gap, want 2", n)
	}
	add(13*period, 3*period, 0)
	add(14*period, period, 0)
	if n != 6 {
		t.Errorf("%d periods, want 6", n)
	}
	add(14*period+time.Hour, time.Hour, 0)
	add(15*period+time.Hour, period, 0)
	if n != 7 {
		t.Errorf("%d periods, want none of an hour's average", n)
	}
	for i := range time.Duration(36_000) {
		add(time.Hour+(16+i)*period, period, 1)
		if len(m.held) > mostHeld {
			t.Fatalf("%d samples are held", len(m.held))
		}
	}
	if n < 35_000 {
		t.Errorf("%d periods", n)
	}
}
