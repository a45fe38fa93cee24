package kernel

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/linux/cgroup"
)

const ms = time.Millisecond

// A run is a script that was played, and what the kernel counted meanwhile.
type run struct {
	limits bandwidth.Limits
	origin time.Duration // when the first period began
	length time.Duration
	played script
	writes []time.Duration // of the same limits
	kernel cgroup.Stat
	others float64 // CPUs that the rest of the machine used
}

// play plays a script whose times count from the beginning of a period, and writes the
// limits anew at given times. The periods before it are for the prelude: every thread
// runs a little, so that its CPU keeps 1 ms as the kernel lets it, and the bucket fills.
func (g *group) play(t *testing.T, l bandwidth.Limits, s script, writes []time.Duration) run {
	t.Helper()
	const prelude = 4
	time.Sleep(3 * l.Period)
	r := run{limits: l, origin: g.nextPeriod(now()+10*ms, l.Period)}
	before, busy, began := g.stat(t), busyTime(t), now()
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
		r.writes = append(r.writes, now())
	}
	r.played = played()
	// By the end of the fourth period the timer has stopped.
	end := g.nextPeriod(now(), l.Period) + 4*l.Period
	r.length = end - r.origin
	time.Sleep(end - now())
	r.kernel = difference(g.stat(t), before)
	r.others = float64(busyTime(t)-busy-r.kernel.Usage) / float64(now()-began)
	return r
}

func difference(after, before cgroup.Stat) cgroup.Stat {
	return cgroup.Stat{
		Periods: after.Periods - before.Periods, Throttled: after.Throttled - before.Throttled,
		ThrottledTime: after.ThrottledTime - before.ThrottledTime,
		Bursts:        after.Bursts - before.Bursts, BurstTime: after.BurstTime - before.BurstTime,
		Usage: after.Usage - before.Usage,
	}
}

// busyTime returns the CPU time that the machine has used or lost.
func busyTime(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	// user nice system idle iowait irq softirq steal, in 1/100 s: fs/proc/stat.c
	var n [8]int64
	line, _, _ := strings.Cut(string(text), "\n")
	if _, err := fmt.Sscanf(line, "cpu %d %d %d %d %d %d %d %d", &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6], &n[7]); err != nil {
		t.Fatalf("/proc/stat: %q: %v", line, err)
	}
	return time.Duration(n[0]+n[1]+n[2]+n[5]+n[6]+n[7]) * 10 * ms
}

// starved is how long threads neither ran nor were throttled, by the kernel's count.
func (r run) starved() time.Duration {
	waited := -r.kernel.ThrottledTime
	for _, bursts := range r.played {
		for _, b := range bursts {
			waited += b.End - b.Start - b.Work
		}
	}
	return waited
}

// tooMuch reports whether threads were starved for so long that what they used when is
// not known: more than one part in fifty.
func (r run) tooMuch() bool {
	return r.starved() > r.length/50
}

// model plays what happened in the model.
func (r run) model(t *testing.T, m bandwidth.Machine) bandwidth.Stats {
	t.Helper()
	g, err := bandwidth.NewGroup(m, r.limits)
	if err != nil {
		t.Fatal(err)
	}
	type event struct {
		at time.Duration
		do func() error
	}
	var events []event
	for i, bursts := range r.played {
		for _, b := range bursts {
			events = append(events, event{b.Start, func() error {
				_, err := g.Submit(bandwidth.Request{Work: b.Work, CPU: i % m.CPUs})
				return err
			}})
		}
	}
	for _, at := range r.writes {
		events = append(events, event{at, func() error { return g.Write(r.limits) }})
	}
	slices.SortFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	for _, e := range events {
		g.Advance(e.at - r.origin)
		if err := e.do(); err != nil {
			t.Fatal(err)
		}
	}
	g.Advance(r.length)
	return g.Stats()
}

// machines are those that this one may be: nobody knows when its ticks are, and
// reading its own clock makes a thread look at once.
func machines(t *testing.T) []bandwidth.Machine {
	t.Helper()
	var all []bandwidth.Machine
	atOnce := bandwidth.Kernel(runtime.NumCPU())
	atOnce.Slice, atOnce.Tick = slice(t), 0
	for phase := time.Duration(0); phase < 4*ms; phase += ms / 4 {
		m := bandwidth.Kernel(runtime.NumCPU())
		m.Slice, m.TickPhase = atOnce.Slice, phase
		all = append(all, m)
	}
	return append(all, atOnce, bandwidth.Fluid(runtime.NumCPU()))
}

func slice(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/kernel/sched_cfs_bandwidth_slice_us")
	if err != nil {
		t.Skipf("no bandwidth control: %v", err)
	}
	d, err := time.ParseDuration(strings.TrimSpace(string(text)) + "us")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// between is what the model says: a range, over all that the machine may be.
type between struct{ low, high bandwidth.Stats }

func (r run) between(t *testing.T) between {
	t.Helper()
	var b between
	for i, m := range machines(t) {
		s := r.model(t, m)
		if i == 0 {
			b = between{s, s}
		}
		b.low.Throttled, b.high.Throttled = min(b.low.Throttled, s.Throttled), max(b.high.Throttled, s.Throttled)
		b.low.Periods, b.high.Periods = min(b.low.Periods, s.Periods), max(b.high.Periods, s.Periods)
		b.low.BurstTime, b.high.BurstTime = min(b.low.BurstTime, s.BurstTime), max(b.high.BurstTime, s.BurstTime)
		b.low.Usage, b.high.Usage = min(b.low.Usage, s.Usage), max(b.high.Usage, s.Usage)
	}
	return b
}

func (r run) String() string {
	k := r.kernel
	return fmt.Sprintf("%v/%v burst %v: kernel: used %v, %d periods, %d throttled (%v), %d bursts (%v); starved %v, others use %.2f CPUs",
		r.limits.Quota, r.limits.Period, r.limits.Burst, k.Usage, k.Periods, k.Throttled, k.ThrottledTime, k.Bursts, k.BurstTime, r.starved(), r.others)
}

func (b between) String() string {
	return fmt.Sprintf("model: used %v to %v, %d to %d periods, %d to %d throttled, bursts %v to %v",
		b.low.Usage, b.high.Usage, b.low.Periods, b.high.Periods, b.low.Throttled, b.high.Throttled, b.low.BurstTime, b.high.BurstTime)
}
