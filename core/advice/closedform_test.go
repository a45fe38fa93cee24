package advice

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/test/race"
)

// exponentialSeries returns exponential demand with a mean in CPUs.
func exponentialSeries(seed uint64, periods int, mean float64, limits bandwidth.Limits) *trace.Series {
	r := rand.New(rand.NewPCG(seed, 5))
	cpus := make([]float64, periods)
	for i := range cpus {
		cpus[i] = r.ExpFloat64() * mean
	}
	return seriesOf(cpus, limits)
}

func seeded(seed uint64) Options {
	return Options{Random: func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }, Workers: 2}
}

// rightLimit returns the limit that throttles a given share of the periods of exponential demand:
// the share is sigma^(1+burst), and sigma = exp(-(1-sigma)/u) gives the utilisation u.
func rightLimit(mean, burst, ratio float64) float64 {
	sigma := math.Pow(ratio, 1/(1+burst))
	return mean * -math.Log(sigma) / (1 - sigma)
}

// TestLimitOfExponentialDemand compares with the closed form: over many recordings the limits are
// right on average, and the confidence intervals contain the right limit, and what the advised
// limit throttles in another recording, about as often as they claim.
func TestLimitOfExponentialDemand(t *testing.T) {
	need.This(t, "a long time")
	race.SkipLong(t)
	const (
		recordings = 60
		mean       = .7
	)
	unlimited := bandwidth.Limits{Quota: bandwidth.Unlimited, Period: period}
	goal := Goal{ThrottleRatio: .05, Burst: 1, ProbabilityWCET1: .99}
	covered, again, sum := [2]int{}, [2]int{}, [2]float64{}
	right := [2]float64{rightLimit(mean, 0, .05), rightLimit(mean, 1, .05)}
	for seed := range uint64(recordings) {
		sub := newSubject(exponentialSeries(seed, 2000, mean, unlimited), period, goal)
		c := Container{LimitWithoutBurst: sub.limitFor(0), LimitWithBurst: sub.limitFor(1)}
		if err := sub.intervals(context.Background(), &c, sub.limitToAdviseFor(c.LimitWithBurst), seeded(seed)); err != nil {
			t.Fatal(err)
		}
		for i, l := range []Limit{c.LimitWithoutBurst, c.LimitWithBurst} {
			if !l.Enough || !(l.LowCPUs <= l.LimitCPUs && l.LimitCPUs <= l.HighCPUs) {
				t.Fatalf("%+v", l)
			}
			fresh := newSubject(exponentialSeries(seed+recordings, 2000, mean, unlimited), period, goal).wanted
			quota := quotaOf(l.LimitCPUs, period)
			if r := fresh.throttleRatio(quota, int64(l.BurstPercent/100*float64(quota))); l.LowThrottleRatio <= r && r <= l.HighThrottleRatio {
				again[i]++
			}
			sum[i] += l.LimitCPUs / recordings
			if l.LowCPUs-.01 <= right[i] && right[i] <= l.HighCPUs {
				covered[i]++
			}
		}
	}
	for i, name := range []string{"without burst", "with burst"} {
		t.Logf("%s: %v on average, right is %v; %d of %d intervals have it, and %d what another recording shows", name, sum[i], right[i], covered[i], recordings, again[i])
		if again[i] < recordings*85/100 {
			t.Errorf("%s: only %d of %d intervals contain the share of another recording", name, again[i], recordings)
		}
		if math.Abs(sum[i]/right[i]-1) > .015 {
			t.Errorf("%s: a limit of %v on average, want %v", name, sum[i], right[i])
		}
		if covered[i] < recordings*85/100 {
			t.Errorf("%s: only %d of %d intervals contain the right limit", name, covered[i], recordings)
		}
	}
}

// TestLimitOfCorrelatedDemand has clients that switch on and off, like the published web server.
// The right limit is that of a recording two hundred times as long.
func TestLimitOfCorrelatedDemand(t *testing.T) {
	need.This(t, "a long time")
	race.SkipLong(t)
	const (
		recordings = 25
		periods    = 4000
	)
	clients, err := demand.NewOnOff(.4, 1.1, 10, 8)
	if err != nil {
		t.Fatal(err)
	}
	goal := Goal{ThrottleRatio: .02, Burst: 1, ProbabilityWCET1: .99}
	long := phases{amountsOf(drawPeriods(clients, 0, 200*periods), period)}
	right := stepsToCPUs(long.smallestLimit(period, 1, goal.ThrottleRatio))
	covered := 0
	for seed := range uint64(recordings) {
		sub := newSubject(seriesOf(drawPeriods(clients, seed+1, periods), bandwidth.Limits{Quota: bandwidth.Unlimited, Period: period}), period, goal)
		c := Container{LimitWithBurst: sub.limitFor(1)}
		if err := sub.intervals(context.Background(), &c, sub.limitToAdviseFor(c.LimitWithBurst), seeded(seed)); err != nil {
			t.Fatal(err)
		}
		l := &c.LimitWithBurst
		if !l.Enough || math.Abs(l.LimitCPUs/right-1) > .1 {
			t.Errorf("recording %d: %+v, want about %v", seed, l, right)
		}
		if l.LowCPUs-.01 <= right && right <= l.HighCPUs {
			covered++
		}
	}
	t.Logf("%d of %d intervals have the right limit of %v", covered, recordings, right)
	if covered < recordings*3/4 {
		t.Errorf("only %d of %d intervals contain the right limit", covered, recordings)
	}
}

func drawPeriods(p demand.Process, seed uint64, n int) []float64 {
	r := rand.New(rand.NewPCG(seed, 8))
	source := p.Start(r)
	cpus := make([]float64, n)
	for i := range cpus {
		cpus[i] = source.Next(r)
	}
	return cpus
}

// seriesOf returns a recording of the usage in each period.
func seriesOf(cpus []float64, limits bandwidth.Limits) *trace.Series {
	s := &trace.Series{Group: "/drawn"}
	for i, c := range cpus {
		s.Samples = append(s.Samples, trace.Sample{
			At: time.Duration(i+1) * period, Interval: period, Usage: time.Duration(c * float64(period)), Limits: limits,
		})
	}
	return s
}

// TestBurstOfExponentialDemand: the burst worth having is ln(ratio)/ln(sigma) - 1.
func TestBurstOfExponentialDemand(t *testing.T) {
	limits := bandwidth.Limits{Quota: period, Period: period}
	sub := newSubject(exponentialSeries(1, 40_000, .35, limits), period, DefaultGoal())
	// u = .35: sigma = exp(-(1-sigma)/.35)
	sigma := .1
	for range 200 {
		sigma = math.Exp(-(1 - sigma) / .35)
	}
	want := 100 * (math.Log(.01)/math.Log(sigma) - 1)
	b := sub.burstAt(sub.limitToAdviseFor(Limit{}))
	if !b.Enough || !b.ReachesGoal || math.Abs(b.BurstPercent-want) > 6 {
		t.Errorf("%+v, want a burst of %.1f%%", b, want)
	}
	if math.Abs(b.ThrottleRatioWithout-sigma) > .005 {
		t.Errorf("%v throttled without burst, want %v", b.ThrottleRatioWithout, sigma)
	}
}

// TestHeldOut: in long stationary recordings, both halves are throttled about equally often.
func TestHeldOut(t *testing.T) {
	unlimited := bandwidth.Limits{Quota: bandwidth.Unlimited, Period: period}
	for seed := range uint64(3) {
		sub := newSubject(exponentialSeries(seed, 40_000, .5, unlimited), period, DefaultGoal())
		for _, burst := range []float64{0, .5, 1} {
			h := sub.limitFor(burst).HeldOut
			if h.FittedThrottleRatio > .01 || h.FittedThrottleRatio < .008 || math.Abs(h.JudgedThrottleRatio-.01) > .004 {
				t.Errorf("recording %d, burst %v: %+v", seed, burst, h)
			}
		}
	}
}
