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

func between(t *rapid.T, name string, low, high int) time.Duration {
	return time.Duration(rapid.IntRange(low, high).Draw(t, name))
}

// drawTiny returns settings that the kernel would reject: a period of some nanoseconds.
func drawTiny(t *rapid.T) bandwidth.Limits {
	l := bandwidth.Limits{Quota: bandwidth.Unlimited, Period: between(t, "period", 1, 60)}
	if rapid.IntRange(0, 9).Draw(t, "limited") > 0 {
		l.Quota = between(t, "quota", 1, 100)
		l.Burst = between(t, "burst", 0, int(l.Quota))
	}
	return l
}

func drawTinyMachine(t *rapid.T) Machine {
	m := Machine{CPUs: rapid.IntRange(1, 4).Draw(t, "CPUs"), Turn: between(t, "turn", 0, 10), PeriodPhase: between(t, "period's phase", 0, 60)}
	if rapid.Bool().Draw(t, "fluid") {
		return m
	}
	m.Slice = between(t, "slice", 1, 10)
	m.Keep = between(t, "keep", 0, 4)
	m.Tick = between(t, "tick", 0, 8)
	m.TickPhase = between(t, "tick's phase", 0, 10)
	m.Slack = between(t, "slack", 0, 8)
	m.Margin = between(t, "margin", 0, 4)
	return m
}

// TestGroupAgainstSlow compares with the reference implementation, which steps through each
// nanosecond.
func TestGroupAgainstSlow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, l := drawTinyMachine(t), drawTiny(t)
		fast, second := newGroup(m, l), newSlow(m, l)
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			switch rapid.IntRange(0, 7).Draw(t, "event") {
			case 0:
				l := drawTiny(t)
				fast.write(l)
				second.write(l)
			case 1, 2, 3:
				r := Request{Work: between(t, "work", 1, 60), CPU: rapid.IntRange(AnyCPU, m.CPUs-1).Draw(t, "CPU")}
				fast.Submit(r)
				second.submit(r)
			default:
				until := fast.Now() + between(t, "passes", 0, 80)
				if diff := cmp.Diff(second.advance(until), append([]Done(nil), fast.Advance(until)...)); diff != "" {
					t.Fatalf("finished: -slow +fast\n%s", diff)
				}
			}
			if diff := cmp.Diff(second.stats, fast.Stats()); diff != "" {
				t.Fatalf("at %d: -slow +fast\n%s", fast.Now(), diff)
			}
			if diff := cmp.Diff(append([]int{}, second.throttled...), append([]int{}, fast.throttled...)); diff != "" {
				t.Fatalf("at %d, throttled CPUs: -slow +fast\n%s", fast.Now(), diff)
			}
		}
	})
}

// TestFluidGroupIsController gives every request its own CPU and at most half a period of work, so
// only the bucket limits it. Writes are in the middle of periods.
func TestFluidGroupIsController(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimits(t)
		const periods, most = 20, 3
		c, errC := NewController(l)
		g, errG := NewGroup(Fluid(periods*most), l)
		if errC != nil || errG != nil {
			t.Fatal(errC, errG)
		}
		cpu := 0
		for p := range time.Duration(periods) {
			var demand time.Duration
			for range rapid.IntRange(0, most).Draw(t, "requests") {
				work := time.Duration(rapid.Int64Range(1, int64(l.Period/2)).Draw(t, "work"))
				g.Submit(Request{Work: work, CPU: cpu})
				demand += work
				cpu++
			}
			c.Use(demand)
			if rapid.Bool().Draw(t, "write") {
				next := drawLimits(t)
				next.Period = l.Period
				g.Advance(p*l.Period + l.Period/2)
				must.Do(t, errors.Join(c.Write(next), g.Write(next)))
				c.Use(0)
			}
			c.Tick()
			g.Advance((p + 1) * l.Period)
			got := g.Stats()
			got.ThrottledTime = 0
			if diff := cmp.Diff(c.Stats(), got); diff != "" || c.Backlog() != g.Backlog() {
				t.Fatalf("backlog %v and %v, stats: -controller +group\n%s", c.Backlog(), g.Backlog(), diff)
			}
		}
	})
}
