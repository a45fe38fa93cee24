package advice

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/test/race"
)

// TestSameRandomNumbersSameAdvice: any number of workers gives the same advice.
func TestSameRandomNumbersSameAdvice(t *testing.T) {
	s := exponentialSeries(1, 3000, .3, bandwidth.Limits{Quota: period, Period: period})
	type both struct {
		Container Container
		Node      Node
	}
	ask := func(seed uint64, workers int) (b both) {
		options, goal := seeded(seed), DefaultGoal()
		options.Workers = workers
		goal.ProbabilityWCET1 = .9 // needs a hundredth of the periods
		var err, nodeErr error
		b.Container, err = ForContainer(context.Background(), s, period, goal, options)
		b.Node, nodeErr = ForNode(context.Background(), s, period, 6, 1, goal, options)
		if err := errors.Join(err, nodeErr); err != nil {
			t.Fatal(err)
		}
		return b
	}
	first := ask(1, 1)
	if diff := cmp.Diff(first, ask(1, 3)); diff != "" {
		t.Errorf("three workers advise differently than one:\n%s", diff)
	}
	if cmp.Equal(first, ask(2, 1)) {
		t.Error("other random numbers change nothing")
	}
}

// TestNodeOfExponentialDemand has 20 groups at 70% of their limit, the published example of where
// burst is safe: one deadline in 170 is missed.
func TestNodeOfExponentialDemand(t *testing.T) {
	need.This(t, "a long time")
	race.SkipLong(t)
	n, err := ForNode(context.Background(), exponentialSeries(1, 20_000, .7, bandwidth.Limits{Quota: period, Period: period}), period, 20, 1, DefaultGoal(), seeded(1))
	if err != nil {
		t.Fatal(err)
	}
	if !n.Enough || n.LessDensity || n.ByLimits.Containers != 20 || n.Fits.Containers < 20 || n.Fits.Containers > 21 {
		t.Errorf("%+v, want 20 containers or one more", n)
	}
	if p := n.ByLimits.ProbabilityWCET1; math.Abs(p.Value-.9941) > .002+4*p.StandardError {
		t.Errorf("P(WCET = 1) is %+v, published is .9941", p)
	}
	if math.Abs(n.SafeUtilisation-.71) > .03 {
		t.Errorf("safe up to a utilisation of %v, want about .71", n.SafeUtilisation)
	}
	tight, err := ForNode(context.Background(), exponentialSeries(1, 20_000, .9, bandwidth.Limits{Quota: period, Period: period}), period, 20, 1, DefaultGoal(), seeded(1))
	if err != nil {
		t.Fatal(err)
	}
	if !tight.LessDensity || tight.Fits.Containers >= 20 || math.Abs(tight.SafeUtilisation-n.SafeUtilisation) > .03 {
		t.Errorf("at 90%%: %+v, want fewer containers, and the same safe utilisation", tight)
	}
}

func TestInvalidGoals(t *testing.T) {
	for name, spoil := range map[string]func(*Goal){
		"no throttling at all": func(g *Goal) { g.ThrottleRatio = 0 },
		"all throttled":        func(g *Goal) { g.ThrottleRatio = 1 },
		"not a number":         func(g *Goal) { g.ThrottleRatio = math.NaN() },
		"burst of 200%":        func(g *Goal) { g.Burst = 2 },
		"negative burst":       func(g *Goal) { g.Burst = -1 },
		"always met":           func(g *Goal) { g.ProbabilityWCET1 = 1 },
	} {
		bad := DefaultGoal()
		if spoil(&bad); bad.Validate() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s := exponentialSeries(1, 3000, .3, bandwidth.Limits{Quota: period, Period: period})
	if _, err := ForContainer(ctx, s, period, DefaultGoal(), seeded(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("container: %v", err)
	}
	if _, err := ForNode(ctx, s, period, 4, 1, DefaultGoal(), seeded(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("node: %v", err)
	}
}

// TestNonsense: for any file there is advice that can be printed, or not enough data.
func TestNonsense(t *testing.T) {
	race.SkipLong(t)
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SampledFrom([]time.Duration{0, 1, time.Microsecond, 7 * time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, trace.MaxTime})
		nominal := max(1, times.Draw(t, "nominal"))
		s := &trace.Series{}
		at := time.Duration(0)
		same := rapid.IntRange(1, 400).Draw(t, "same")
		for range rapid.IntRange(0, 6).Draw(t, "kinds") {
			sample := trace.Sample{
				Interval: max(1, min(times.Draw(t, "interval"), time.Hour)), Usage: times.Draw(t, "usage"), ThrottledTime: times.Draw(t, "throttled time"),
				Throttled: uint32(rapid.IntRange(0, 2).Draw(t, "throttled")), Limits: bandwidth.Limits{Quota: max(1, times.Draw(t, "quota")), Period: max(1, times.Draw(t, "period"))},
			}
			if rapid.Bool().Draw(t, "unlimited") {
				sample.Limits.Quota = bandwidth.Unlimited
			}
			for range same {
				at += sample.Interval
				sample.At = at
				s.Samples = append(s.Samples, sample)
			}
		}
		goal := DefaultGoal()
		goal.ThrottleRatio = .2
		c, err := ForContainer(context.Background(), s, nominal, goal, seeded(1))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := json.Marshal(c); err != nil {
			t.Error(err)
		}
		for name, f := range map[string]Finding{"limit": c.LimitWithBurst.Finding, "burst": c.Burst.Finding, "period": c.Period.Finding,
			"binding": c.Binding.Finding, "threads": c.Parallelism.Finding, "scale out": c.ScaleOut.Finding, "curve": c.Curve.Finding} {
			if f.Reason == "" {
				t.Errorf("%s: no reason", name)
			}
		}
	})
}
