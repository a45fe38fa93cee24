package counters

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/bandwidth/bandwidthtest"
	"pinfold.dev/pinfold/test/must"
)

// TestDemand checks limits from the agent's histograms: of independent demand it is the least that
// reaches the goal, as the controller's own arithmetic says, and nearly so of demand that is twice as
// high for a minute. Where they contradict the counters, or do not know enough, these count.
func TestDemand(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	draw := func(n int, wave float64) (demand []float64) {
		level := 1.
		for i := range n {
			if i%500 == 0 {
				level = math.Exp(wave * r.NormFloat64())
			}
			demand = append(demand, level*(.1+.2*r.ExpFloat64()))
		}
		return demand
	}
	share := func(demand []float64, limit float64) float64 {
		debt, throttled := int64(0), 0
		for _, cpus := range demand {
			if debt = bandwidth.NextDebt(debt, int64(cpus*1e6), int64(limit*1e6)); debt > 0 {
				throttled++
			}
		}
		return float64(throttled) / float64(len(demand))
	}
	counted := func(demand []float64, limit float64) Container {
		c := web(limit, limit, .3, slices.Repeat([]float64{share(demand, limit)}, 7)...)
		index := func(x float64) int { return int(math.Ceil(8 * math.Log2(x))) }
		bound := func(i int) float64 { return math.Exp2(float64(i) / 8) }
		for _, cpus := range demand {
			c.Demand = append(c.Demand, Bucket{bound(index(cpus) - 1), bound(index(cpus)), 1})
		}
		c.Demand, c.Sampled = Histogram(nil).Add(c.Demand), float64(len(demand))
		return c
	}
	even, waves := draw(100_000, 0), draw(100_000, .6)
	goal := DefaultGoal()
	for _, limit := range []float64{.5, 3} {
		v := Judge([]Container{counted(even, limit)}, day, goal)
		if v.NewLimit == nil || !v.NewLimit.Sure || v.RecordingNeeded {
			t.Errorf("with a limit of %v: %+v", limit, v)
		} else if got := share(even, v.NewLimit.To); got > goal.Throttled || share(even, v.NewLimit.To/1.1) < goal.Throttled {
			t.Errorf("with a limit of %v, one of %v is advised, which throttles %.2f%%, and a tenth less %.2f%%", limit, v.NewLimit.To, 100*got, 100*share(even, v.NewLimit.To/1.1))
		}
	}
	// What a limit would do, with burst and without, is as in the kernel's model.
	v := Judge([]Container{counted(even, .6)}, day, goal)
	if len(v.Effects) != 2 || len(v.Demand) != len(DemandShares()) {
		t.Fatalf("effects %+v and demand %v", v.Effects, v.Demand)
	}
	model := func(limit float64, burst bool) float64 {
		limits := bandwidth.Limits{Quota: time.Duration(limit * float64(period)).Round(time.Microsecond), Period: period}
		if burst {
			limits.Burst = limits.Quota
		}
		c := must.Get(bandwidthtest.NewController(limits))(t)
		for _, cpus := range even {
			c.Step(time.Duration(cpus * float64(period)))
		}
		return float64(c.Stats().Throttled) / float64(len(even))
	}
	for _, e := range v.Effects { // demand counts as up to two buckets more than it is
		for burst, got := range map[bool]float64{false: e.Throttled, true: e.Bursted} {
			if least, most := model(e.Limit, burst), model(e.Limit/1.19, burst); got < .9*least || got > most {
				t.Errorf("limit %v, burst %v: %.2f%% throttled, want %.2f to %.2f%%", e.Limit, burst, 100*got, 100*least, 100*most)
			}
		}
	}
	sorted := slices.Sorted(slices.Values(even))
	for i, share := range DemandShares() {
		if want := sorted[int(share*float64(len(even)))]; math.Abs(v.Demand[i]-want) > .1*want {
			t.Errorf("%v of the periods want %v CPUs, want %v", share, v.Demand[i], want)
		}
	}
	if v := Judge([]Container{counted(even, 1.5)}, day, goal); v.NewLimit != nil {
		t.Errorf("a limit that is less than twice what is needed is changed: %+v", v.NewLimit)
	}
	idle := counted(slices.Repeat([]float64{.002, .004}, 5000), 1)
	for i := range idle.Slices {
		idle.Slices[i].High = .004
	}
	if v := Judge([]Container{idle}, day, goal); v.NewLimit == nil || v.NewLimit.To != leastLimit {
		t.Errorf("an idle container: %+v", v.NewLimit)
	}
	calm, busy := counted(slices.Repeat([]float64{.04, .05}, 500), 3), counted(slices.Repeat([]float64{1.9, 2}, 500), 3)
	for i := range busy.Slices {
		busy.Slices[i].High = 2
	}
	if v := Judge(append(slices.Repeat([]Container{calm}, 249), busy), day, goal); v.NewLimit != nil && v.NewLimit.To < 2 {
		t.Errorf("one of 250 replicas is busy all the time: %+v", v.NewLimit)
	}
	unknown := counted(even, .5)
	unknown.Sampled *= 1.2
	for _, limit := range []float64{.7, 1.3} {
		if v := Judge([]Container{counted(waves, limit)}, day, goal); v.NewLimit == nil || share(waves, v.NewLimit.To) > 1.2*goal.Throttled {
			t.Errorf("with a limit of %v and demand in waves, %+v is advised, which throttles %.2f%%", limit, v.NewLimit, 100*share(waves, v.NewLimit.To))
		}
	}
	bursts := counted(even, .5) // all throttled periods follow each other
	for i := range bursts.Slices {
		bursts.Slices[i].Throttled *= 8
	}
	for name, c := range map[string]Container{"throttled far more often than independent demand": bursts, "unknown demand of a sixth of the periods": unknown} {
		without := c
		without.Demand = nil
		if d := cmp.Diff(Judge([]Container{without}, day, goal), Judge([]Container{c}, day, goal)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}
