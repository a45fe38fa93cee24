package kernel

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/sampler"
	"pinfold.dev/pinfold/test/busy"
	"pinfold.dev/pinfold/test/must"
)

// period is that of all limits here. sampled is the interval of the recording.
const (
	period  = 100 * ms
	sampled = 5 * ms
)

// Errors that the model may have in TestReplay, and that wrong models must exceed: of the share of
// throttled wall periods, on average over all rows, and of the total burst time.
const (
	throttledTolerance = 0.09
	burstTolerance     = 0.25
)

// TestReplay records loads without a limit, replays the recordings in the model under some limits,
// and plays the same loads under these limits; see the package comment. PINFOLD_TEST_LONG=5m makes
// it run for about that long, for more precise results.
func TestReplay(t *testing.T) {
	x := experiment{T: t, group: newGroup(t, min(runtime.NumCPU(), 2)), length: testLength(t, 25*period, 12)}
	var rows []replayed
	for _, p := range programs() {
		s := p.script(x.threads, x.length)
		recorded := x.record(s)
		for _, l := range p.limits {
			x.limit(t, l)
			rows = append(rows, replayed{p.name, l, recorded, x.undisturbed(s, nil).kernel, x.length})
		}
	}
	t.Logf("\n%s", table(t, rows))
	e := rightModel().errorOf(t, rows)
	t.Logf("replay: %s", must.Get(json.Marshal(e))(t))
	if e.Throttled > throttledTolerance || e.BurstTime > burstTolerance {
		t.Errorf("the model differs from the kernel by %+v, want at most %v and %v", e, throttledTolerance, burstTolerance)
	}
	for _, m := range wrongModels() {
		e := m.errorOf(t, rows)
		t.Logf("wrong: %+v", e)
		if e.Throttled <= throttledTolerance && e.BurstTime <= burstTolerance {
			t.Errorf("a model %s passes: the test does not detect wrong models", m.name)
		}
	}
}

// testLength returns how long each of n scripts is: least, or more if PINFOLD_TEST_LONG requests a
// long test.
func testLength(t *testing.T, least time.Duration, n int) time.Duration {
	t.Helper()
	text := os.Getenv("PINFOLD_TEST_LONG")
	if text == "" {
		return least
	}
	whole := must.Get(time.ParseDuration(text))(t)
	return max(least, (whole / time.Duration(n)).Truncate(period))
}

// experiment plays scripts of a given length.
type experiment struct {
	*testing.T
	*group
	length time.Duration
}

// limit sets limits.
func (g *group) limit(t *testing.T, l bandwidth.Limits) {
	t.Helper()
	o := g.fs.Apply(map[string]cgroup.Wanted{g.path: {Quota: &l.Quota, Period: &l.Period, Burst: &l.Burst}})
	must.Do(t, o.Err())
}

// record plays a script without a limit and records the cgroup's usage.
func (x *experiment) record(s script) (recorded *trace.Series) {
	x.Helper()
	x.limit(x.T, bandwidth.Limits{Quota: bandwidth.Unlimited, Period: period})
	x.undisturbed(s, func() (end func() bool) {
		recorded = &trace.Series{Group: x.path}
		stop := x.sample(recorded)
		return func() bool {
			stop()
			d := must.Get(recorded.Demand(sampled, period))(x)
			return d.Averaged < 0.1 // otherwise the sampler waited for CPUs
		}
	})
	return recorded
}

// sample appends the sampler's samples of the cgroup until end is called.
func (x *experiment) sample(to *trace.Series) (end func()) {
	x.Helper()
	sampling := must.Get(sampler.New(x.fs, sampler.Options{Interval: sampled}))(x)
	sampling.Set([]string{x.path})
	ctx, stop := context.WithCancel(x.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- sampling.Run(ctx, func(tick *sampler.Tick) error {
			for _, s := range tick.Samples {
				to.Samples = append(to.Samples, s.Sample)
			}
			return nil
		})
	}()
	return func() {
		stop()
		if err := <-ended; err != nil {
			x.Fatal(err)
		}
	}
}

// undisturbed plays a script under the current limits. It repeats the run if threads waited for
// CPUs, or used more CPU time than planned, as happens if the time of a virtual CPU passes while it
// does not run. If observe is not nil, it is called when the script begins. The function that it
// returns is called at the end and reports whether the observation is usable.
func (x *experiment) undisturbed(s script, observe func() (end func() bool)) (r run) {
	x.Helper()
	busy.Repeat(x, 8, func() string {
		var good bool
		r, good = x.once(s, observe)
		offered := s.work()
		if good && (r.kernel.Usage-offered).Abs() < offered/10 && r.starved() < x.length/10 {
			return ""
		}
		return fmt.Sprintf("of %v threads waited for %v, and used %v instead of %v; well observed: %v", x.length, r.starved(), r.kernel.Usage, offered, good)
	})
	return r
}

// once plays a script after four periods in which the bucket fills: each thread runs briefly, so
// that the timer runs.
func (x *experiment) once(s script, observe func() func() bool) (r run, good bool) {
	x.Helper()
	const prelude = 4 * period
	first := now() + prelude
	asked := make(script, len(s))
	for i := range s {
		asked[i] = []Burst{{Start: first - prelude + 5*ms, Work: 1200 * time.Microsecond}}
		for _, b := range s[i] {
			asked[i] = append(asked[i], Burst{Start: first + b.Start, Work: b.Work})
		}
	}
	before, playing := x.stat(x.T), x.send(x.T, asked)
	time.Sleep(first - now())
	end := func() bool { return true }
	if observe != nil {
		end = observe()
	}
	r = run{origin: first, length: x.length, played: playing()}
	time.Sleep(first + x.length + period - now())
	good = end()
	r.kernel = difference(x.stat(x.T), before)
	return r, good
}

// machine describes the machine of the measurement.
func machine(t *testing.T) string {
	t.Helper()
	var name unix.Utsname
	must.Do(t, unix.Uname(&name))
	return unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:])
}
