package advice

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/core/trace"
)

// contended returns an exact recording of a thread that wants a CPU for a random time at the
// beginning of each second, and gets it in turns with others: after each 10 ms it waits. Without
// exact, only the kernel's sum of its waits is known.
func contended(seconds int, wait time.Duration, exact bool) *trace.Series {
	const interval = 20 * time.Millisecond
	r := rand.New(rand.NewPCG(4, 4))
	var spans []trace.Span
	at := time.Duration(0)
	add := func(state blame.State, d time.Duration) {
		spans = append(spans, trace.Span{Group: "/busy", Thread: 1, State: state, From: at, To: at + d})
		at += d
	}
	for i := range seconds {
		work := time.Duration(r.IntN(int(100 * time.Millisecond)))
		for work > 0 {
			turn := min(work, 10*time.Millisecond)
			add(blame.Running, turn)
			if work -= turn; work > 0 && wait > 0 {
				add(blame.Waiting, wait)
			}
		}
		add(blame.Sleeping, time.Duration(i+1)*time.Second-at)
	}
	s := &trace.Series{Group: "/busy"}
	for end := interval; end <= time.Duration(seconds)*time.Second; end += interval {
		s.Samples = append(s.Samples, trace.Sample{At: end, Interval: interval, Limits: bandwidth.Limits{Quota: bandwidth.Unlimited, Period: period}})
	}
	s.Exact = trace.NewExact(s)
	for i := range spans {
		x := &spans[i]
		for from := x.From; from < x.To; {
			sample := &s.Samples[from/interval]
			to := min(x.To, sample.At)
			switch x.State {
			case blame.Running:
				sample.Usage += to - from
			case blame.Waiting:
				sample.Waited += to - from
			}
			from = to
		}
		s.Exact.Add(x)
	}
	if !exact {
		s.Exact = nil
		return s
	}
	s.Exact.End(0, time.Duration(seconds)*time.Second)
	return s
}

// TestContention: beside others, usage alone asks for less than half of the limit that the same
// load needs alone. A warning says so, and with a trace the interval contains that one.
func TestContention(t *testing.T) {
	advise := func(wait time.Duration, exact bool) []*Limit {
		c, err := ForContainer(t.Context(), contended(300, wait, exact), 20*time.Millisecond, DefaultGoal(), seeded(1))
		if err != nil {
			t.Fatal(err)
		}
		if warned := strings.Contains(strings.Join(c.Warnings, "\n"), "waited for CPUs for 271%"); warned != (wait > 0) {
			t.Errorf("waits of %v: %q", wait, c.Warnings)
		}
		return []*Limit{&c.LimitWithoutBurst, &c.LimitWithBurst}
	}
	alone := advise(0, false)
	advise(30*time.Millisecond, false)
	for i, l := range advise(30*time.Millisecond, true) {
		right := alone[i]
		t.Logf("burst %v: %v CPUs, %v to %v; right is %v; throttles up to %v", l.BurstPercent, l.LimitCPUs, l.LowCPUs, l.HighCPUs, right.LimitCPUs, l.HighThrottleRatio)
		if !l.Enough || l.LimitCPUs > .6*right.LimitCPUs || l.LowCPUs > l.LimitCPUs || l.HighCPUs < right.LimitCPUs {
			t.Errorf("burst %v: %v CPUs, %v to %v, and alone %v", l.BurstPercent, l.LimitCPUs, l.LowCPUs, l.HighCPUs, right.LimitCPUs)
		}
		if l.HighThrottleRatio < .05 {
			t.Errorf("burst %v: it may throttle %v, want more: the load is twice as high at times", l.BurstPercent, l.HighThrottleRatio)
		}
	}
}
