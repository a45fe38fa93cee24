package interference

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/test/race"
)

func independent(d demand.Distribution) demand.Process { return demand.Independent{Distribution: d} }

// oneKind returns m identical groups.
func oneKind(m int, burst float64, d demand.Process) []Group {
	return []Group{{Count: m, Quota: 1, Burst: burst, Demand: d}}
}

// TestNothingIsLost checks the sums: no burst is used without a burst setting, and the distribution
// of the WCET agrees with its mean and with the number of misses.
func TestNothingIsLost(t *testing.T) {
	r := simulate(t, Config{Periods: 100_000, Groups: []Group{
		{Count: 3, Quota: 2, Burst: 1, Demand: independent(exponential(t, 0.6))},
		{Count: 5, Quota: 0.5, Burst: 0, Demand: independent(pareto(t, 3, 0.4))},
	}})
	if len(r.Groups) != 2 {
		t.Fatalf("%d kinds of groups, want 2", len(r.Groups))
	}
	if got := r.Groups[1].BurstUse.Value; got != 0 {
		t.Errorf("%v of burst was used by groups without", got)
	}
	if got := r.Groups[0].BurstUse.Value; !(got > 0.02) {
		t.Errorf("hardly any burst was used: %v", got)
	}
	sum := int64(0)
	for _, n := range r.WCET {
		sum += n
	}
	if sum != r.Periods || r.WCET[1] != r.Periods-r.Misses {
		t.Errorf("%d periods have a WCET, of %d; %d met their deadlines, %d missed", sum, r.Periods, r.WCET[1], r.Misses)
	}
	mean := 0.0
	for w, n := range r.WCET {
		mean += float64(w) * float64(n) / float64(r.Periods)
	}
	if math.Abs(mean-r.ExpectedWCET.Value) > 1e-9 {
		t.Errorf("the distribution of the WCET has the mean %v, E[WCET] is %v", mean, r.ExpectedWCET.Value)
	}
}

// TestMoreBurst: whatever the containers and the machine, more burst lets more through and so never
// leaves more undone, for all of them together, although more periods may be late for lack of
// capacity.
func TestMoreBurst(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		m, capacity := 1+r.IntN(6), 0.0
		if r.IntN(2) == 0 {
			capacity = float64(m) * (0.9 + r.Float64())
		}
		mean, last := 0.3+0.5*r.Float64(), math.Inf(1)
		for _, burst := range []float64{0, 0.1, 0.5, 1, 2, math.Inf(1)} {
			got := simulate(t, Config{Groups: oneKind(m, burst, independent(exponential(t, mean))), Capacity: capacity, Periods: 6400}).Groups[0]
			if got.Backlog.Value > last+1e-9 {
				t.Errorf("%d groups of mean %v, capacity %v: backlog %v with burst %v, and %v with less", m, mean, capacity, got.Backlog.Value, burst, last)
			}
			last = got.Backlog.Value
		}
	}
}

// TestWorkers: any number of workers gives the same result, for every kind of demand and both
// engines; another seed gives another result.
func TestWorkers(t *testing.T) {
	recording := []float64{0.1, 0.4, 2.5, 0, 0.3, 0.7, 0.2}
	replay, err1 := demand.NewReplay(recording)
	blocks, err2 := demand.NewBlocks(3, recording)
	onOff, err3 := demand.NewOnOff(0.5, 2, 3, 2)
	must.Do(t, errors.Join(err1, err2, err3))
	for name, p := range map[string]demand.Process{
		"exponential": independent(exponential(t, 0.7)), "pareto": independent(pareto(t, 4, 0.7)),
		"replay": replay, "blocks": blocks, "on and off": onOff,
	} {
		for _, capacity := range []float64{0, 7} {
			c := Config{Groups: oneKind(8, 1, p), Capacity: capacity, Periods: 50_000, Precision: capacity / 2000}
			run := func(seed uint64, workers int) *Result {
				c.Random, c.Workers = streams(seed), workers
				r, err := Simulate(t.Context(), c)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				return r
			}
			one := run(1, 1)
			if diff := cmp.Diff(one, run(1, 5)); diff != "" {
				t.Errorf("%s, capacity %v: 1 and 5 workers differ:\n%s", name, capacity, diff)
			}
			if cmp.Equal(one, run(2, 1)) {
				t.Errorf("%s, capacity %v: two seeds, one result", name, capacity)
			}
		}
	}
}

// TestPrecision: a simulation stops when the standard errors are small enough, and warns if they
// are not.
func TestPrecision(t *testing.T) {
	c := Config{Groups: oneKind(20, 1, independent(exponential(t, 0.7))), Periods: 10_000_000, Precision: 5e-4}
	r := simulate(t, c)
	if r.Periods >= c.Periods || max(r.ExpectedWCET.StandardError, r.ProbabilityWCET1.StandardError) > 6e-4 {
		t.Errorf("after %d periods, E[WCET] %v, P %v", r.Periods, r.ExpectedWCET, r.ProbabilityWCET1)
	}
	c.Periods, c.Precision = 100_000, 1e-6
	if r := simulate(t, c); !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "was not reached") }) {
		t.Errorf("no warning that the precision was not reached: %q", r.Warnings)
	}
	// Without burst no deadline can be missed, so the standard errors are 0 at once.
	c.Groups = oneKind(20, 0, independent(exponential(t, 0.7)))
	if r = simulate(t, c); r.Periods == 100_000 || len(r.Warnings) > 0 {
		t.Errorf("%d periods without burst, %q", r.Periods, r.Warnings)
	}
}

// TestStandardErrors compares the standard errors with the spread over seeds, for periods with long
// correlation.
func TestStandardErrors(t *testing.T) {
	need.This(t, "a long time")
	race.SkipLong(t)
	const seeds = 80
	c := Config{Groups: oneKind(5, 2, independent(exponential(t, 0.8))), Periods: 40_000, Workers: 2}
	for name, estimate := range map[string]func(*Result) Estimate{
		"E[WCET]":     func(r *Result) Estimate { return r.ExpectedWCET },
		"P(WCET = 1)": func(r *Result) Estimate { return r.ProbabilityWCET1 },
		"throttling":  func(r *Result) Estimate { return r.Groups[0].ThrottleRatio },
	} {
		sum, squares, reported := 0.0, 0.0, 0.0
		for seed := range uint64(seeds) {
			c.Random = streams(100 + seed)
			r := must.Get(Simulate(t.Context(), c))(t)
			e := estimate(r)
			sum, squares, reported = sum+e.Value, squares+e.Value*e.Value, reported+e.StandardError/seeds
		}
		spread := math.Sqrt((squares - sum*sum/seeds) / (seeds - 1))
		if ratio := spread / reported; ratio < 0.75 || ratio > 1.3 {
			t.Errorf("%s: the spread over seeds is %.3g, the standard error %.3g", name, spread, reported)
		}
	}
}

func TestWarnings(t *testing.T) {
	for _, c := range []struct {
		m, periods int
		burst, u   float64
		want       string
	}{
		{20, 10_000, 1, 0.3, "no deadline was missed"},
		{20, 10_000, 0, 0.3, ""}, // no deadline can be missed
		{20, 5000, 1, 0.65, "too wide to conclude"},
		{5, 1000, 1, 0.95, "warm-up"},
		{20, 1_000_000, 1, 0.8, ""},
	} {
		r := simulate(t, Config{Groups: oneKind(c.m, c.burst, independent(exponential(t, c.u))), Periods: int64(c.periods)})
		got := strings.Join(r.Warnings, "; ")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("u = %v, %d periods: %q, want %q", c.u, c.periods, got, c.want)
		}
	}
}

// TestCancel cancels an endless simulation from its own progress callback, which starts with the
// warm-up.
func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	last := int64(-1)
	_, err := Simulate(ctx, Config{Groups: oneKind(20, 1, independent(exponential(t, 0.7))),
		Periods: 1 << 50, Random: streams(1), Workers: 2, Progress: func(done, of int64) {
			if done < last || last < 0 && done > 0 || of != 1<<50 {
				t.Errorf("progress %d of %d after %d", done, of, last)
			}
			if last = done; done > 100_000 {
				cancel()
			}
		}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// liar draws other demands than it states.
type liar struct {
	demand.Distribution
	value float64
}

func (l liar) Draw(*rand.Rand) float64 { return l.value }

// TestErrors checks what is rejected, and the message.
func TestErrors(t *testing.T) {
	race.SkipLong(t)
	good := exponential(t, 0.5)
	lying := func(x float64) []Group { return oneKind(2, 1, independent(liar{good, x})) }
	for _, c := range []struct {
		want   string
		config Config
	}{
		{"no groups", Config{}},
		{"0 groups", Config{Groups: oneKind(0, 1, independent(good))}},
		{"memory", Config{Groups: oneKind(1_000_000, 1, independent(good))}},
		{"a burst of -1", Config{Groups: oneKind(2, -1, independent(good))}},
		{"a burst of NaN", Config{Groups: oneKind(2, math.NaN(), independent(good))}},
		{"a mean demand of 0", Config{Groups: oneKind(2, 1, independent(demand.Exponential{}))}},
		{"a quota of 0", Config{Groups: []Group{{Count: 1, Demand: independent(good)}}}},
		{"a capacity of NaN", Config{Groups: oneKind(2, 1, independent(good)), Capacity: math.NaN()}},
		{"times the smallest quota", Config{Groups: oneKind(2, 1, independent(good)), Capacity: 1e12}},
		{"grows by 0.2 quotas a period", Config{Groups: oneKind(2, 1, independent(exponential(t, 1.2)))}},
		{"take fewer groups", Config{Groups: oneKind(4, 1, independent(good)), Capacity: 2}},
		{"a precision of -1", Config{Groups: oneKind(2, 1, independent(good)), Precision: -1}},
		{"a demand of NaN", Config{Groups: lying(math.NaN())}},
		{"a demand of -1", Config{Groups: lying(-1)}},
		{"a demand of +Inf", Config{Groups: lying(math.Inf(1))}},
		{"a mean of 0.6 ", Config{Groups: lying(0.6)}},
		{"truncate the distribution", Config{Groups: oneKind(1000, 1, independent(pareto(t, 1.01, 0.5)))}},
	} {
		c.config.Periods, c.config.Random, c.config.Workers = 10_000, streams(1), 1
		_, err := Simulate(t.Context(), c.config)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	for _, periods := range []int64{0, math.MaxInt64} {
		if err := (Config{Groups: oneKind(1, 1, independent(good)), Periods: periods}).Check(); err == nil {
			t.Errorf("%d periods: no error", periods)
		}
	}
}

// rotten is a demand with some broken sources.
type rotten struct{}

func (rotten) Mean() float64 { return 0.5 }

func (rotten) Start(r *rand.Rand) demand.Source {
	value := 0.5
	if r.IntN(16) == 0 {
		value = math.NaN()
	}
	return broken{value}
}

type broken struct{ value float64 }

func (b broken) Next(*rand.Rand) float64 { return b.value }

// TestOneFailureEndsAll: the error of one replica ends replicas that would run forever.
func TestOneFailureEndsAll(t *testing.T) {
	_, err := Simulate(t.Context(), Config{Groups: oneKind(1, 1, rotten{}), Periods: 1 << 50, Random: streams(1), Workers: Replicas})
	if err == nil || !strings.Contains(err.Error(), "a demand of NaN") {
		t.Errorf("got %v", err)
	}
}

func TestRuleWords(t *testing.T) {
	for _, r := range []Rule{Strict, Published} {
		if got, err := ParseRule(r.String()); err != nil || got != r {
			t.Errorf("%v: %v, %v", r, got, err)
		}
	}
	if _, err := ParseRule("lax"); err == nil {
		t.Error("lax: no error")
	}
}
