package kernel

import (
	"fmt"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
)

const ms = time.Millisecond

// A run is a script that was played, and what the kernel counted during it.
type run struct {
	limits bandwidth.Limits
	origin time.Duration // when the first period began
	length time.Duration
	played script
	kernel cgroupstat.Stat
	// stoodStill reports whether CPU time passed without any work: a virtual machine's CPUs wait
	// for those of its host and miss their ticks.
	stoodStill bool
}

// play plays a script, whose times are relative to the start of a period, and rewrites the limits
// at given times. The periods before it are a prelude: each thread runs briefly, so that its CPU
// keeps 1 ms of its slice as the kernel allows, and the bucket fills.
func (g *group) play(t *testing.T, l bandwidth.Limits, s script, writes []time.Duration) run {
	t.Helper()
	const prelude = 4
	time.Sleep(3 * l.Period)
	r := run{limits: l, origin: g.nextPeriod(now()+10*ms, l.Period)}
	before := g.stat(t)
	first := r.origin + prelude*l.Period
	r.played = make(script, g.threads)
	for i := range r.played {
		r.played[i] = []Burst{{Start: r.origin + ms, Work: 1200 * time.Microsecond}}
		if i < len(s) {
			for _, b := range s[i] {
				r.played[i] = append(r.played[i], Burst{Start: first + b.Start, Work: b.Work})
			}
		}
	}
	played := g.send(t, r.played)
	for _, w := range writes {
		time.Sleep(first + w - now())
		g.rewrite(t, l)
	}
	asked := r.played
	r.played = played()
	// The timer stops by the end of the fourth period.
	end := g.nextPeriod(now(), l.Period) + 4*l.Period
	r.length = end - r.origin
	time.Sleep(end - now())
	r.kernel = difference(g.stat(t), before)
	r.stoodStill = overshot(asked, r.played) || r.between() > time.Duration(r.bursts())*ms/2
	return r
}

func difference(after, before cgroupstat.Stat) cgroupstat.Stat {
	return cgroupstat.Stat{
		Periods: after.Periods - before.Periods, Throttled: after.Throttled - before.Throttled,
		ThrottledTime: after.ThrottledTime - before.ThrottledTime,
		Bursts:        after.Bursts - before.Bursts, BurstTime: after.BurstTime - before.BurstTime,
		Usage: after.Usage - before.Usage,
	}
}

// starved returns how long threads neither ran nor were throttled, according to the kernel.
func (r run) starved() time.Duration {
	starved := -r.kernel.ThrottledTime
	for _, w := range r.waits() {
		starved += w
	}
	return starved
}

// overshot reports whether a thread used more than planned.
func overshot(asked, played script) bool {
	for i := range asked {
		for j := range asked[i] {
			if played[i][j].Work > asked[i][j].Work+ms {
				return true
			}
		}
	}
	return false
}

// tooMuch reports whether threads were starved for more than a tenth of a run, which makes it
// useless.
func (r run) tooMuch() bool { return r.stoodStill || r.starved() > r.length/10 }

// waits returns for each burst of the threads how long it lasted without running.
func (r run) waits() []time.Duration {
	var out []time.Duration
	for _, bursts := range r.played {
		for _, b := range bursts {
			out = append(out, max(b.End-b.Start-b.Work, 0))
		}
	}
	return out
}

func (r run) bursts() int {
	n := 0
	for _, bursts := range r.played {
		n += len(bursts)
	}
	return n
}

// between returns what the threads used outside of their bursts.
func (r run) between() time.Duration {
	used := r.kernel.Usage
	for _, bursts := range r.played {
		for _, b := range bursts {
			used -= b.Work
		}
	}
	return used
}

func (r run) String() string {
	k := r.kernel
	return fmt.Sprintf("%v/%v burst %v: used %v, %d periods, %d throttled (%v), %d bursts (%v); starved %v, stood still: %v",
		r.limits.Quota, r.limits.Period, r.limits.Burst, k.Usage, k.Periods, k.Throttled, k.ThrottledTime, k.Bursts, k.BurstTime, r.starved(), r.stoodStill)
}
