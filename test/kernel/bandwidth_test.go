package kernel

import (
	"fmt"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/test/busy"
)

// at returns a burst that starts at a time after the beginning of the script.
func at(start, work time.Duration) Burst { return Burst{Start: start, Work: work} }

// exact plays a script until threads hardly had to wait for CPUs, and then asks the kernel how often
// it has throttled the group, and for how much burst.
func exact(t *testing.T, play func() run, throttled uint64, burstTime time.Duration) {
	t.Helper()
	const tries, wait = 8, 20 * ms
	busy.Repeat(t, tries, func() string {
		r := play()
		if r.tooMuch() || r.starved() > wait {
			return fmt.Sprintf("threads waited for CPUs for %v of %v", r.starved(), r.length)
		}
		if k := r.kernel; k.Throttled != throttled || burstTime > 0 && k.BurstTime != burstTime {
			t.Errorf("%v; want %d throttled, burst %v", r, throttled, burstTime)
		}
		return ""
	})
}

// TestProbes plays loads whose throttling is known. Each load needs its CPU time in its first
// period.
func TestProbes(t *testing.T) {
	g := newGroup(t, 1)
	for _, c := range []struct {
		name        string
		burst, need time.Duration
		throttled   uint64        // for two needs
		burstTime   time.Duration // exact; not compared if 0
	}{
		{"30 ms of 30, burst 0", 0, 29 * ms, 0, 0},
		{"60 ms of 30, burst 30", 30 * ms, 59 * ms, 0, 0},
		{"90 ms of 30, burst 30", 30 * ms, 89 * ms, 2, 60 * ms},
		{"60 ms of 30, burst 15", 15 * ms, 59 * ms, 2, 30 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := bandwidth.Limits{Quota: 30 * ms, Period: 100 * ms, Burst: c.burst}
			g.set(t, l)
			exact(t, func() run { return g.play(t, l, script{{at(2*ms, c.need), at(502*ms, c.need)}}, nil) }, c.throttled, c.burstTime)
		})
	}
}

// TestWrites rewrites the same quota while a thread is throttled. Each write permits another quota,
// so that the thread is not throttled at the end of the period, as it would be twice without them.
func TestWrites(t *testing.T) {
	g := newGroup(t, 1)
	l := bandwidth.Limits{Quota: 20 * ms, Period: 100 * ms}
	g.set(t, l)
	exact(t, func() run { return g.play(t, l, script{{at(ms, 55*ms)}}, []time.Duration{30 * ms, 60 * ms}) }, 0, 0)
}
