package advice

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/bandwidth/bandwidthtest"
	"pinfold.dev/pinfold/core/trace"
)

// inStep returns a recording of work of an exponential amount, 30 ms on average, at the beginning
// of each 100 ms, on two CPUs. The kernel's periods and the recording begin at different phases.
func inStep(t *testing.T, seed uint64, periods int, interval, kernelPhase, samplePhase time.Duration, l bandwidth.Limits) *trace.Series {
	t.Helper()
	g, err := bandwidthtest.NewServer(2, kernelPhase, l)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(seed, 3))
	s := &trace.Series{Group: "/step"}
	begin, before := samplePhase-period, bandwidthtest.Stats{}
	for at := time.Duration(0); at < time.Duration(periods)*period; at += period {
		half := 1 + time.Duration(r.ExpFloat64()*float64(15*time.Millisecond))
		g.Submit(half)
		g.Submit(half)
		for ; begin+interval < at+period; begin += interval {
			g.Advance(max(0, begin+interval))
			s.Samples = append(s.Samples, g.Stats().Sample(before, begin+interval, interval, l))
			before = g.Stats()
		}
		g.Advance(at + period)
	}
	return s
}

// TestLimitAtEveryPhase: the share of throttled periods that goes with a limit is right on average
// over the phases of the kernel's periods, wherever the recording began, and each phase is within
// the interval. It is not if the load is only replayed in the periods of the recording: with those
// that begin in the middle of the work, the limit throttles 3% and not 0.7%.
func TestLimitAtEveryPhase(t *testing.T) {
	const periods = 8000
	unlimited := bandwidth.Limits{Quota: bandwidth.Unlimited, Period: period}
	for _, samplePhase := range []time.Duration{0, 50 * time.Millisecond} {
		c, err := ForContainer(context.Background(), inStep(t, 1, periods, 20*time.Millisecond, 0, samplePhase, unlimited), 20*time.Millisecond, DefaultGoal(), seeded(1))
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range []*Limit{&c.LimitWithoutBurst, &c.LimitWithBurst} {
			quota := time.Duration(quotaOf(l.LimitCPUs, period))
			limits := bandwidth.Limits{Quota: quota, Period: period, Burst: time.Duration(l.BurstPercent / 100 * float64(quota))}
			mean := 0.0
			for phase := time.Duration(0); phase < period; phase += 20 * time.Millisecond {
				sum := trace.Summarise(inStep(t, 2, periods, period, phase, 0, limits), period)
				share := float64(sum.Throttled) / periods
				mean += share / 5
				if share < l.LowThrottleRatio-.001 || share > l.HighThrottleRatio+.001 {
					t.Errorf("recorded at %v: %v CPUs throttle %v at phase %v, want %v to %v", samplePhase, l.LimitCPUs, share, phase, l.LowThrottleRatio, l.HighThrottleRatio)
				}
			}
			t.Logf("recorded at %v, burst %v: %v CPUs throttle %v on average, %v to %v predicted", samplePhase, l.BurstPercent, l.LimitCPUs, mean, l.LowThrottleRatio, l.HighThrottleRatio)
			if math.Abs(mean-l.ThrottleRatio) > .004 {
				t.Errorf("recorded at %v: %v CPUs throttle %v on average, want %v", samplePhase, l.LimitCPUs, mean, l.ThrottleRatio)
			}
		}
	}
}

// TestDelay: what is left at the end of a period waits for as long as the limit takes for it.
func TestDelay(t *testing.T) {
	const ms = int64(time.Millisecond)
	wanted := phases{{150 * ms, 0, 0, 320 * ms, 0, 0, 0}}
	d := wanted.delay(100*ms, 0, period)
	// 50 ms are left after the first, and 220, 120 and 20 after the fourth and the next two.
	if want := 410 * time.Millisecond / 4; d.Mean.Round(time.Microsecond) != want || d.Longest.Duration != 220*time.Millisecond || d.P99 != nil {
		t.Errorf("%+v, want a mean of %v", d, want)
	}
	if d := wanted.delay(100*ms, 100*ms, period); d.Mean.Duration != 70*time.Millisecond || d.Longest.Duration != 120*time.Millisecond {
		t.Errorf("with burst: %+v", d)
	}
	many := phases{make(amounts, 2000)}
	for i := range many[0] {
		many[0][i] = int64(i%2) * 200 * ms * int64(1+i/1000) / 2
	}
	if d := many.delay(50*ms, 0, period); d.P99 == nil || d.P99.Duration > d.Longest.Duration || d.P99.Duration < d.Mean.Duration {
		t.Errorf("of many periods: %+v", d)
	}
}
