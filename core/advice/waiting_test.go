package advice

import (
	"fmt"
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

// TestContention: beside others, usage alone asks for less than half of the limit that the same load
// needs alone. Where waits were long there is no advice, but both ends; otherwise the interval
// contains that limit.
func TestContention(t *testing.T) {
	advise := func(wait time.Duration, exact bool) *Container {
		c, err := ForContainer(t.Context(), contended(300, wait, exact), 20*time.Millisecond, DefaultGoal(), seeded(1))
		if err != nil {
			t.Fatal(err)
		}
		return &c
	}
	alone := advise(0, false)
	if !alone.LimitWithBurst.Enough || len(alone.Warnings) > 0 {
		t.Fatalf("alone: %s, %q", alone.LimitWithBurst.Reason, alone.Warnings)
	}
	right := alone.LimitWithBurst.LimitCPUs
	for _, exact := range []bool{false, true} {
		c := advise(30*time.Millisecond, exact)
		var share, low, high float64
		if _, err := fmt.Sscanf(c.LimitWithBurst.Reason, "not enough data: it waited for CPUs for %g%% of its run time, so it needs between %g and %g CPUs; record with --weight",
			&share, &low, &high); err != nil || share < 250 || low > .6*right || high < right {
			t.Errorf("exact %v, long waits: %s (%v); want %v CPUs between the limits", exact, c.LimitWithBurst.Reason, err, right)
		}
		if c.Burst.Reason != c.LimitWithBurst.Reason || c.Period.Reason != c.LimitWithBurst.Reason || len(c.Warnings) > 0 {
			t.Errorf("exact %v: want one sentence: burst %q, period %q, notes %q", exact, c.Burst.Reason, c.Period.Reason, c.Warnings)
		}
		c = advise(2*time.Millisecond, exact)
		if l := c.LimitWithBurst; !l.Enough || l.LowCPUs > right || l.HighCPUs < right || l.LimitCPUs < right-.01 {
			t.Errorf("exact %v, short waits: %v CPUs (%v to %v), want %v or a little more: %s", exact, l.LimitCPUs, l.LowCPUs, l.HighCPUs, right, l.Reason)
		}
		if len(c.Warnings) != 1 || !strings.HasSuffix(c.Warnings[0], "clients that wait send less, so it may need more; record with --weight") {
			t.Errorf("exact %v, short waits: notes %q, want one", exact, c.Warnings)
		}
	}
}
