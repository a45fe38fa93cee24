package trace_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/test/must"
)

const ms = time.Millisecond

// limited returns a series of samples of 100 ms with the given usage in milliseconds, which were
// all throttled.
func limited(usage ...int) *trace.Series {
	s := &trace.Series{Group: "/a"}
	for i, u := range usage {
		s.Samples = append(s.Samples, trace.Sample{At: time.Duration(i+1) * 100 * ms, Interval: 100 * ms, Usage: time.Duration(u) * ms,
			Throttled: 1, Limits: bandwidth.Limits{Quota: 20 * ms, Period: 100 * ms}})
	}
	return s
}

// traced is [limited], with what threads did in the 300 ms.
func traced(usage []int, byThread [][]trace.Span) *trace.Series {
	s := limited(usage...)
	s.Exact = trace.NewExact(s)
	for _, spans := range byThread {
		for i := range spans {
			s.Exact.Add(&spans[i])
		}
	}
	s.Exact.End(0, 300*ms)
	return s
}

// did returns consecutive spans of a thread: states with their ends in milliseconds.
func did(thread int, from int, states ...any) (spans []trace.Span) {
	for i := 0; i < len(states); i += 2 {
		state, to := states[i].(blame.State), states[i+1].(int)
		spans = append(spans, trace.Span{Group: "/a", Thread: thread, State: state, From: time.Duration(from) * ms, To: time.Duration(to) * ms})
		from = to
	}
	return spans
}

const (
	runs, waits, throttled, sleeps, dies, unknown = blame.Running, blame.Waiting, blame.Throttled, blame.Sleeping, blame.Dead, blame.Unknown
)

// TestExactDemand checks where the usage of a throttled group goes.
func TestExactDemand(t *testing.T) {
	for _, c := range []struct {
		name  string
		usage []int
		spans [][]trace.Span // by thread
		want  []float64      // CPUs
		open  int
	}{
		{"what was throttled runs at once", []int{20, 20, 10},
			[][]trace.Span{did(1, 0, runs, 20, throttled, 100, runs, 120, throttled, 200, runs, 210, dies, 210)}, []float64{.5, 0, 0}, 0},
		{"a wait for a CPU remains", []int{20, 10, 10},
			[][]trace.Span{did(1, 0, runs, 20, throttled, 100, waits, 190, runs, 210, sleeps, 300)}, []float64{.2, .2, 0}, 0},
		{"after a sleep nothing is late", []int{20, 30, 0},
			[][]trace.Span{did(1, 0, runs, 20, throttled, 100, runs, 120, sleeps, 150, runs, 160, sleeps, 300)}, []float64{.4, .1, 0}, 0},
		{"a short sleep is not the end", []int{20, 30, 0}, [][]trace.Span{append(did(1, 0, runs, 20, throttled, 100, runs, 120),
			append([]trace.Span{{Group: "/a", Thread: 1, State: sleeps, From: 120 * ms, To: 120*ms + 999_999}}, did(1, 121, runs, 131, sleeps, 300)...)...)},
			[]float64{.5, 0, 0}, 0},
		{"two threads", []int{20, 20, 20}, [][]trace.Span{
			did(1, 80, runs, 90, throttled, 100, runs, 110, throttled, 200, runs, 210, sleeps, 300), did(2, 80, runs, 90, throttled, 100, runs, 110, throttled, 200, runs, 210, sleeps, 300)},
			[]float64{.4, .2, 0}, 0},
		{"still throttled at the end", []int{20, 20, 20},
			[][]trace.Span{did(1, 0, runs, 20, throttled, 100, runs, 120, throttled, 200, runs, 220, throttled, 300)}, []float64{.6, 0, 0}, 1},
		{"a time is unknown", []int{20, 20, 0},
			[][]trace.Span{did(1, 0, runs, 20, throttled, 100, unknown, 110, runs, 120, sleeps, 300)}, []float64{.3, .1, 0}, 1},
	} {
		s := traced(c.usage, c.spans)
		d := must.Get(s.Demand(100*ms, 100*ms))(t)
		if diff := cmp.Diff(c.want, d.CPUs); diff != "" || !d.Exact || d.Open != c.open {
			t.Errorf("%s: exact %v, %d open (want %d); demand (-want +got):\n%s", c.name, d.Exact, d.Open, c.open, diff)
		}
	}
}

// TestBounds: work was wanted when it was done, or when threads began to be held back. Without a
// trace, waits contain throttled time, and the CPUs that were wanted are no more than were ever used
// at a time.
func TestBounds(t *testing.T) {
	for _, c := range []struct {
		name              string
		waited, throttled []time.Duration // of each sample
		most              []float64
		share             float64 // waited, of the usage
	}{
		{"nothing", nil, nil, []float64{.2, .2, .2}, 0},
		{"a queue", []time.Duration{30, 30, 30}, nil, []float64{.6, 0, 0}, 1.5},
		{"a long queue", []time.Duration{100, 0, 0}, nil, []float64{.4, 0, .2}, 100. / 60},
		{"waits are read in every other sample", []time.Duration{0, 40, 0}, nil, []float64{.2, .2, .2}, 40. / 60},
		{"longer waits are read in every other sample", []time.Duration{0, 80, 0}, nil, []float64{.6, 0, 0}, 80. / 60},
		{"throttled", []time.Duration{80, 80, 30}, []time.Duration{80, 80, 30}, []float64{.6, 0, 0}, 0},
		{"throttled, and counted when that ended", []time.Duration{50, 80, 30}, []time.Duration{0, 80, 80}, []float64{.6, 0, 0}, 0},
		{"throttled on two CPUs", []time.Duration{80, 80, 80}, []time.Duration{160, 160, 160}, []float64{.6, 0, 0}, 0},
		{"throttled, and waits are unknown", nil, []time.Duration{0, 60, 0}, []float64{.2, .2, .2}, 0},
		{"both", []time.Duration{70, 70, 70}, []time.Duration{50, 50, 50}, []float64{.6, 0, 0}, 1},
	} {
		s := limited(20, 20, 20)
		for i := range s.Samples {
			x := &s.Samples[i]
			if x.Throttled, x.Waited, x.ThrottledTime = 0, 0, 0; c.waited != nil {
				x.Waited = c.waited[i] * ms
			}
			if c.throttled != nil {
				x.ThrottledTime = c.throttled[i] * ms
			}
		}
		b := s.Bounds(100*ms, 100*ms)
		near := cmpopts.EquateApprox(0, 1e-6)
		if diff := cmp.Diff([][]float64{{.2, .2, .2}}, b.Least, near); diff != "" {
			t.Errorf("%s: at least (-want +got):\n%s", c.name, diff)
		}
		if diff := cmp.Diff([][]float64{c.most}, b.Most, near); diff != "" || math.Abs(b.Waited-c.share) > 1e-6 {
			t.Errorf("%s: waited %v, want %v; at most (-want +got):\n%s", c.name, b.Waited, c.share, diff)
		}
	}
}

// TestTracedBounds: a trace has when threads would have run. They use no more CPUs at a time than
// they ever did, so they wait for each other on an idle machine, too.
func TestTracedBounds(t *testing.T) {
	for _, c := range []struct {
		name  string
		usage []int
		spans [][]trace.Span
		want  trace.Bounds
	}{
		{"behind others", []int{20, 20, 20}, [][]trace.Span{did(1, 0, runs, 20, waits, 120, runs, 140, sleeps, 220, runs, 240, waits, 250, sleeps, 300)},
			trace.Bounds{Least: [][]float64{{.2, .2, .2}}, Most: [][]float64{{.4, 0, .2}}, Waited: 110. / 60}},
		{"behind each other", []int{100, 100, 0}, [][]trace.Span{did(1, 0, runs, 100, sleeps, 300), did(2, 0, waits, 100, runs, 200, sleeps, 300)},
			trace.Bounds{Least: [][]float64{{1, 1, 0}}, Most: [][]float64{{1, 1, 0}}, Waited: .5}},
	} {
		s := traced(c.usage, c.spans)
		if diff := cmp.Diff(c.want, s.Bounds(100*ms, 100*ms)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestUntraced: if throttling was not traced, demand is estimated.
func TestUntraced(t *testing.T) {
	s := limited(20, 20, 10)
	s.Exact = trace.NewExact(s)
	s.Exact.End(0, 150*ms)
	if d, err := s.Demand(100*ms, 100*ms); err != nil || d.Exact {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestExactProperty: nothing is lost when usage is moved, a thread wants one CPU at most, and
// without throttling demand is usage.
func TestExactProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const end = 3000
		n := rapid.IntRange(1, 4).Draw(t, "threads")
		states := []blame.State{runs, waits, sleeps}
		mayThrottle := rapid.Bool().Draw(t, "throttled")
		if mayThrottle {
			states = append(states, throttled)
		}
		s := limited(make([]int, end/100)...)
		var all []trace.Span
		for thread := range n {
			at := rapid.IntRange(0, end).Draw(t, "begin")
			for at < end {
				to := min(end, at+rapid.IntRange(1, 300).Draw(t, "ms"))
				all = append(all, did(thread+1, at, rapid.SampledFrom(states).Draw(t, "state"), to)...)
				at = to
			}
		}
		for _, span := range all {
			for i := range s.Samples {
				x := &s.Samples[i]
				if span.State == runs {
					x.Usage += max(0, min(x.At, span.To)-max(x.Begin(), span.From))
				}
			}
		}
		s.Exact = trace.NewExact(s)
		for i := range all {
			s.Exact.Add(&all[i])
		}
		s.Exact.End(0, end*ms)
		d := must.Get(s.Demand(100*ms, 100*ms))(t)
		usage, demand := 0.0, 0.0
		for i, cpus := range d.CPUs {
			usage += s.Samples[i].CPUs()
			demand += cpus
			if cpus > float64(n)+1e-9 || !mayThrottle && cpus != s.Samples[i].CPUs() {
				t.Fatalf("%d threads, of which %v ran, want %v CPUs", n, s.Samples[i].CPUs(), cpus)
			}
		}
		if diff := usage - demand; diff > 1e-9 || diff < -1e-9 {
			t.Fatalf("usage %v, demand %v", usage, demand)
		}
	})
}

// TestExacts: what a thread does counts for its group and those above it; an edge is of one group.
func TestExacts(t *testing.T) {
	all := trace.Exacts{}
	for _, group := range []string{"/", "/a", "/a/b", "/c"} {
		all[group] = trace.NewExact(limited(0))
	}
	all.Add(&trace.Span{Group: "/a/b/c", Thread: 1, State: runs, To: ms})
	all.Add(&trace.Span{Group: "/a", Quota: &blame.Quota{Periods: 7}})
	all.Add(&trace.Span{Group: "/a", Quota: &blame.Quota{Periods: 9}})
	for group, want := range map[string]time.Duration{"/": ms, "/a": ms, "/a/b": ms, "/c": 0} {
		if got := all[group].Running; got != want {
			t.Errorf("%s ran for %v, want %v", group, got, want)
		}
	}
	if all["/a"].Periods() != 3 || all["/a/b"].Periods() != 0 {
		t.Errorf("periods: %d and %d, want 3 and 0", all["/a"].Periods(), all["/a/b"].Periods())
	}
}

// TestWantedCPUs: two jobs that compete for CPUs, and never get more than 1.2, want two. One thread
// whose waits are counted late wants one.
func TestWantedCPUs(t *testing.T) {
	const interval = 20 * ms
	for name, test := range map[string]struct {
		used   float64 // CPUs
		waited func(reading int) time.Duration
		want   float64
	}{
		"two jobs": {1.2, func(int) time.Duration { return 80 * ms }, 2},
		"one thread": {.5, func(reading int) time.Duration {
			return map[bool]time.Duration{true: 250 * ms, false: 44 * ms}[reading%40 == 1]
		}, 1},
	} {
		s := trace.Series{Group: "/g"}
		for i := range 2000 {
			x := trace.Sample{At: time.Duration(i+1) * interval, Interval: interval, Limits: bandwidth.Limits{Quota: bandwidth.Unlimited, Period: 100 * ms}}
			if i%20 < 10 { // of 400 ms it works for 200
				x.Usage = time.Duration(test.used * float64(interval))
				if i%5 == 4 {
					x.Waited = test.waited(i / 5)
				}
			}
			s.Samples = append(s.Samples, x)
		}
		b := s.Bounds(interval, 100*time.Millisecond)
		if got := slices.Max(b.Most[0]); math.Abs(got-test.want) > .01 {
			t.Errorf("%s: at most %v CPUs, want %v", name, got, test.want)
		}
	}
}
