package kernel

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/test/busy"
)

// at returns a burst that starts at a time after the beginning of the script.
func at(start, work time.Duration) Burst { return Burst{Start: start, Work: work} }

// The number of draws for a prediction. Where the model is right, a figure of the kernel is outside
// the range of n draws with a probability of up to 2/(n+1). So the many are drawn where the few do
// not agree.
const (
	fewDraws  = 201
	manyDraws = 20 * fewDraws
)

// compare returns how a run differs from the model.
func compare(t *testing.T, r run, p prediction) []string {
	t.Helper()
	found := differences(r, p)
	if len(found) > 0 {
		t.Logf("not in the range of %d draws: %q", fewDraws, found)
		found = differences(r, r.predict(t, manyDraws))
	}
	return found
}

func differences(r run, p prediction) (found []string) {
	differ := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	k := r.kernel
	if n := int64(k.Throttled); n < p.low.Throttled || n > p.high.Throttled {
		differ("throttled in %d periods, in the model %d to %d", n, p.low.Throttled, p.high.Throttled)
	}
	if n := int64(k.Periods); n < p.low.Periods || n > p.high.Periods {
		differ("%d periods, in the model %d to %d", n, p.low.Periods, p.high.Periods)
	}
	// A slice may have been acquired just before or after a refill.
	if d := k.BurstTime; d < p.low.BurstTime-r.slice || d > p.high.BurstTime+r.slice {
		differ("burst time %v, in the model %v to %v", d, p.low.BurstTime, p.high.BurstTime)
	}
	if d := k.Usage; d < p.low.Usage-ms || d > p.high.Usage+ms {
		differ("used %v, in the model %v to %v", d, p.low.Usage, p.high.Usage)
	}
	if d := r.between(); d < 0 {
		differ("the kernel's usage is %v less than that of the threads", -d)
	}
	return found
}

// attempts plays scripts until it has compared a number of runs. Each run may be repeated a few
// times because of disturbances. Not all of these can be seen, such as a timer that was late. So a
// load must differ from the model twice; next plays a new load, or the same again.
func attempts(t *testing.T, enough int, next func(again bool) run) {
	t.Helper()
	const tries = 8
	alone := 0
	for range enough {
		differed := false
		busy.Repeat(t, tries, func() (disturbed string) {
			r := next(differed)
			p := r.predict(t, fewDraws)
			t.Logf("%v\n%v", r, p)
			if !r.tooMuch() && !p.vague() {
				found := compare(t, r, p)
				if len(found) > 0 && !differed {
					differed = true
					return fmt.Sprintf("%q; played again", found)
				}
				for _, difference := range found {
					t.Error(difference)
				}
				return ""
			}
			if r.alone() {
				alone++
			}
			if alone > 3*enough {
				t.Fatalf("%d runs could not be compared although nothing else ran: the load generator or the model is wrong", alone)
			}
			return fmt.Sprintf("threads waited for CPUs for %v of %v", r.starved(), r.length)
		})
	}
}

// TestProbes plays loads whose throttling is known. Each load needs its CPU time in its first
// period; if it had to wait for longer, the model gives the expected result.
func TestProbes(t *testing.T) {
	const wait = 20 * ms
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
			attempts(t, 2, func(bool) run {
				r := g.play(t, l, script{{at(2*ms, c.need), at(502*ms, c.need)}}, nil)
				if r.tooMuch() || r.starved() > wait {
					return r
				}
				if r.kernel.Throttled != c.throttled || c.burstTime > 0 && r.kernel.BurstTime != c.burstTime {
					t.Errorf("%v; want %d throttled, burst %v", r, c.throttled, c.burstTime)
				}
				return r
			})
		})
	}
}

// TestRandomLoads plays loads of one thread per CPU with random limits.
func TestRandomLoads(t *testing.T) {
	threads := min(runtime.NumCPU(), 4)
	g := newGroup(t, threads)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, period := range []time.Duration{100 * ms, 50 * ms} {
		l := bandwidth.Limits{Period: period}
		l.Quota = (period/5 + time.Duration(random.Int64N(int64(period/2)))).Truncate(ms)
		l.Burst = time.Duration(random.Int64N(int64(l.Quota))).Truncate(ms)
		g.set(t, l)
		var load script
		attempts(t, 4, func(again bool) run {
			if !again {
				load = draw(random, threads, l)
			}
			return g.play(t, l, load, nil)
		})
	}
}

// draw returns bursts of at least 1 ms that use 20 to 120% of the quota, for 20 periods.
func draw(random *rand.Rand, threads int, l bandwidth.Limits) script {
	s := make(script, threads)
	share := (0.2 + random.Float64()) * float64(l.Quota) / float64(l.Period) / float64(threads)
	for i := range s {
		var start time.Duration
		for start < 20*l.Period {
			work := ms + time.Duration(random.ExpFloat64()*float64(l.Quota)/4)
			s[i] = append(s[i], at(start, work))
			start += time.Duration(random.ExpFloat64() * float64(work) / share)
		}
	}
	return s
}

// TestWrites rewrites the same quota while a thread is throttled. The CPU time that each write
// permits is used well before the next write and before the end of the period.
func TestWrites(t *testing.T) {
	g := newGroup(t, 1)
	l := bandwidth.Limits{Quota: 20 * ms, Period: 100 * ms}
	g.set(t, l)
	attempts(t, 2, func(bool) run {
		return g.play(t, l, script{{at(ms, 283*ms)}}, []time.Duration{30 * ms, 60 * ms, 140 * ms, 345 * ms, 346 * ms, 450 * ms})
	})
}
