package kernel

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/bandwidth/bandwidthtest"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/test/must"
)

const ms = time.Millisecond

// A run is a script that was played, and what the kernel counted during it.
type run struct {
	limits bandwidth.Limits
	slice  time.Duration // of the kernel
	origin time.Duration // when the first period began
	doubt  time.Duration // the uncertainty of that
	length time.Duration
	played script
	writes []interval // each interval contains one write of the same limits
	kernel cgroupstat.Stat
	others float64 // CPUs used by the rest of the machine
	// stoodStill reports whether CPU time passed without any work: a virtual machine's CPUs wait
	// for those of its host and miss their ticks.
	stoodStill bool
}

type interval struct{ from, to time.Duration }

// play plays a script, whose times are relative to the start of a period, and rewrites the limits
// at given times. The periods before it are a prelude: each thread runs briefly, so that its CPU
// keeps 1 ms of its slice as the kernel allows, and the bucket fills.
func (g *group) play(t *testing.T, l bandwidth.Limits, s script, writes []time.Duration) run {
	t.Helper()
	const prelude = 4
	time.Sleep(3 * l.Period)
	r := run{limits: l, slice: slice(t), origin: g.nextPeriod(now()+10*ms, l.Period), doubt: g.doubt}
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
		from := now()
		g.rewrite(t, l)
		r.writes = append(r.writes, interval{from, now()})
	}
	asked := r.played
	r.played = played()
	// The timer stops by the end of the fourth period.
	end := g.nextPeriod(now(), l.Period) + 4*l.Period
	r.length = end - r.origin
	time.Sleep(end - now())
	r.kernel = difference(g.stat(t), before)
	r.stoodStill = overshot(asked, r.played) || r.between() > time.Duration(r.bursts())*ms/2
	r.others = float64(busyTime(t)-busy-r.kernel.Usage) / float64(now()-began)
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

// busyTime returns the CPU time that the machine has used, including stolen time.
func busyTime(t *testing.T) time.Duration {
	t.Helper()
	text := must.Get(os.ReadFile("/proc/stat"))(t)
	// user nice system idle iowait irq softirq steal, in 1/100 s: fs/proc/stat.c
	var n [8]int64
	line, _, _ := strings.Cut(string(text), "\n")
	if _, err := fmt.Sscanf(line, "cpu %d %d %d %d %d %d %d %d", &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6], &n[7]); err != nil {
		t.Fatalf("/proc/stat: %q: %v", line, err)
	}
	return time.Duration(n[0]+n[1]+n[2]+n[5]+n[6]+n[7]) * 10 * ms
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

// alone reports whether almost nothing else ran.
func (r run) alone() bool {
	return !r.stoodStill && r.others < 0.1*float64(runtime.NumCPU())
}

// model plays what happened in the model, with random values for what is unknown: when ticks occur,
// the exact start of periods, how long and at which progress a thread was starved in each of its
// bursts, and in which bursts it used the time that the kernel counts beyond what threads measure,
// for going to sleep and waking up.
func (r run) model(t *testing.T, random *rand.Rand) bandwidthtest.Stats {
	t.Helper()
	g := must.Get(bandwidthtest.NewGroup(drawMachine(random, r.slice), r.limits))(t)
	m := &played{T: t, Group: g, random: random, waiting: map[int]progress{}}
	origin := r.origin + time.Duration((2*random.Float64()-1)*float64(r.doubt))
	starved := partition(random, r.waits(), max(r.starved(), 0))
	between := partition(random, slices.Repeat([]time.Duration{r.length}, r.bursts()), max(r.between(), 0))
	n := 0
	for thread, bursts := range r.played {
		for _, b := range bursts {
			p := progress{cpu: thread % runtime.NumCPU(), left: b.Work + between[n], starved: starved[n]}
			m.at(b.Start-origin, func() { m.goOn(p) })
			n++
		}
	}
	for _, w := range r.writes {
		at := w.from + time.Duration(random.Float64()*float64(w.to-w.from))
		m.at(at-origin, func() {
			must.Do(t, g.Write(r.limits))
		})
	}
	m.until(r.length)
	return g.Stats()
}

// played is a run in the model.
type played struct {
	*testing.T
	*bandwidthtest.Group
	random  *rand.Rand
	events  []event          // future events, in the order of time
	waiting map[int]progress // by the number of the request after which the thread continues
}

type event struct {
	at time.Duration
	do func()
}

// progress is the rest of a burst.
type progress struct {
	cpu           int
	left, starved time.Duration
}

func (m *played) at(at time.Duration, do func()) {
	i, _ := slices.BinarySearchFunc(m.events, at, func(e event, at time.Duration) int { return cmp.Compare(e.at, at+1) })
	m.events = slices.Insert(m.events, i, event{at, do})
}

// goOn lets a thread work for at least a millisecond, until it is starved again.
func (m *played) goOn(p progress) {
	work := p.left
	if p.starved > 0 {
		work = time.Duration(m.random.Float64() * float64(p.left))
	}
	p.left -= work
	if work <= 0 { // starved from the beginning, or finished
		m.starve(p, 0)
		return
	}
	m.waiting[m.Submit(bandwidthtest.Request{Work: work, CPU: p.cpu})] = p
}

// starve keeps a thread that has done its previous work off its CPU for a time.
func (m *played) starve(p progress, ago time.Duration) {
	if p.left <= 0 {
		return
	}
	wait := min(p.starved, max(ms, time.Duration(m.random.Float64()*float64(p.starved))))
	p.starved -= wait
	m.at(m.Now()+max(wait-ago, 0), func() { m.goOn(p) })
}

// until advances the time in steps that are shorter than the times for which threads are starved.
func (m *played) until(end time.Duration) {
	const step = ms / 4
	for m.Now() < end {
		next := min(m.Now()+step, end)
		if len(m.waiting) == 0 {
			next = end
		}
		if len(m.events) > 0 {
			next = min(next, max(m.events[0].at, m.Now()))
		}
		for _, done := range slices.Clone(m.Advance(next)) {
			p := m.waiting[done.ID]
			delete(m.waiting, done.ID)
			m.starve(p, m.Now()-done.At)
		}
		for len(m.events) > 0 && m.events[0].at <= m.Now() {
			do := m.events[0].do
			m.events = m.events[1:]
			do()
		}
	}
}

// drawMachine returns a random machine that this one may be. A thread that reads its own CPU clock
// is accounted before the tick.
func drawMachine(random *rand.Rand, slice time.Duration) bandwidthtest.Machine {
	m := bandwidthtest.Kernel(runtime.NumCPU())
	m.Slice, m.TickPhase = slice, time.Duration(random.Int64N(int64(m.Tick)))
	if random.IntN(4) == 0 {
		m.Tick = 0
	}
	return m
}

// partition splits a time into random parts, each with a maximum.
func partition(random *rand.Rand, most []time.Duration, total time.Duration) []time.Duration {
	parts, weights := make([]time.Duration, len(most)), make([]float64, len(most))
	for i := range weights {
		weights[i] = random.ExpFloat64()
	}
	for left := total; left > time.Duration(len(most)); { // the rest is rounding
		sum := 0.0
		for i, w := range weights {
			if parts[i] < most[i] {
				sum += w
			}
		}
		if sum == 0 {
			break
		}
		rest := left
		for i, w := range weights {
			more := min(time.Duration(float64(rest)*w/sum), most[i]-parts[i])
			parts[i] += more
			left -= more
		}
	}
	return parts
}

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

func slice(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/kernel/sched_cfs_bandwidth_slice_us")
	if err != nil {
		t.Skipf("no bandwidth control: %v", err)
	}
	return must.Get(time.ParseDuration(strings.TrimSpace(string(text)) + "us"))(t)
}

// A prediction is the result of the model: ranges and medians over the unknown inputs.
type prediction struct{ low, median, high bandwidthtest.Stats }

func (r run) predict(t *testing.T, draws int) prediction {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 1))
	all := make([]bandwidthtest.Stats, draws)
	for i := range all {
		all[i] = r.model(t, random)
	}
	var p prediction
	for _, figure := range []func(*bandwidthtest.Stats) *int64{
		func(s *bandwidthtest.Stats) *int64 { return &s.Throttled },
		func(s *bandwidthtest.Stats) *int64 { return &s.Periods },
		func(s *bandwidthtest.Stats) *int64 { return (*int64)(&s.BurstTime) },
		func(s *bandwidthtest.Stats) *int64 { return (*int64)(&s.Usage) },
	} {
		slices.SortFunc(all, func(a, b bandwidthtest.Stats) int { return cmp.Compare(*figure(&a), *figure(&b)) })
		*figure(&p.low) = *figure(&all[0])
		*figure(&p.median) = *figure(&all[len(all)/2])
		*figure(&p.high) = *figure(&all[len(all)-1])
	}
	return p
}

func (r run) String() string {
	k := r.kernel
	return fmt.Sprintf("%v/%v burst %v: kernel: used %v, %d periods, %d throttled (%v), %d bursts (%v); starved %v, others use %.2f CPUs, stood still: %v, periods begin within %v",
		r.limits.Quota, r.limits.Period, r.limits.Burst, k.Usage, k.Periods, k.Throttled, k.ThrottledTime, k.Bursts, k.BurstTime, r.starved(), r.others, r.stoodStill, 2*r.doubt)
}

// vague reports whether the prediction is too uncertain for a comparison.
func (p prediction) vague() bool { return p.high.Throttled-p.low.Throttled > 2 }

func (p prediction) String() string {
	return fmt.Sprintf("model: used %v, %d to %d periods, %d to %d throttled (median %d), bursts %v to %v (median %v)",
		p.median.Usage, p.low.Periods, p.high.Periods, p.low.Throttled, p.high.Throttled, p.median.Throttled,
		p.low.BurstTime, p.high.BurstTime, p.median.BurstTime)
}
