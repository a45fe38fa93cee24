package verdict

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
)

// counters are what a container's counters say, in windows of 5 minutes, if it wants in each period what
// next returns, in multiples of a CPU.
func counters(limit float64, n int, next func() float64) (all []Window) {
	const perWindow = int(5 * time.Minute / Period)
	var debt int64
	var before bool
	for range n {
		w := Window{Time: 5 * time.Minute, Limit: limit, Counted: true}
		for range perWindow {
			wanted := next()
			w.Usage += time.Duration(wanted * float64(Period))
			runs := wanted > 0 || debt > 0
			if runs || before {
				w.Periods++
			}
			before = runs
			debt = bandwidth.NextDebt(debt, int64(wanted*quota), int64(limit*quota))
			if debt > 0 {
				w.Throttled++
			}
		}
		all = append(all, w)
	}
	return all
}

// demand returns what is wanted in the next period, of a shape with that average.
func (s shape) demand(mean float64) func() float64 {
	r := rand.New(rand.NewPCG(1, 2))
	draw := s.draw()
	factor := draw(r)
	return func() float64 {
		if r.Float64() < 1/float64(s.length) {
			factor = draw(r)
		}
		return mean * factor
	}
}

// TestUnknown: what is not known is said, and is no verdict.
func TestUnknown(t *testing.T) {
	used := Window{Time: time.Minute, Usage: 6 * time.Second}
	limited, counted := used, used
	limited.Limit = 1
	counted.Counted, counted.Periods, counted.Throttled = true, 600, 60
	later := limited
	for want, windows := range map[string][]Window{
		"no two readings":                                  nil,
		"neither its limit nor":                            {used},
		"whether it was throttled is not":                  {limited},
		"its limit is not known: the":                      {counted},
		"for the time in which its throttling was counted": {counted, later},
	} {
		v := Of(windows, .01)
		if v.Action != Unknown || !strings.Contains(v.Reason, want) || (v.Throttled != nil) != (len(windows) > 0 && windows[0].Counted) || v.Predicted != nil || v.Advised != 0 {
			t.Errorf("want %q: %+v", want, v)
		}
	}
}

// TestVerdicts: of demand that a model describes.
func TestVerdicts(t *testing.T) {
	for name, test := range map[string]struct {
		limit  float64
		demand func() float64
		want   Action
	}{
		"constant":           {1, shape{gamma, 1, 1, 0}.demand(.3), Fine},
		"idle":               {1, shape{gamma, 1, 1, 0}.demand(0), Fine},
		"bursts of a period": {1, shape{gamma, .7, 1, .3}.demand(.4), Burst},
		"too much":           {1, shape{gamma, 1, 1, .5}.demand(1.5), Raise},
	} {
		v := Of(counters(test.limit, 50, test.demand), .01)
		if v.Action != test.want {
			t.Errorf("%s: %s, want %s: %s", name, v.Action, test.want, v.Reason)
		}
	}
}

// TestSettings: other periods than 100 ms are not taken for these, and a container with a burst is not told
// to have one.
func TestSettings(t *testing.T) {
	windows := counters(1, 50, shape{gamma, .25, 3, 0}.demand(.75))
	for i := range windows {
		windows[i].Bursts = 10
	}
	if v := Of(windows, .01); v.Action != Raise || v.Advised != 0 || v.Low != 1 || !strings.Contains(v.Reason, "it has a burst") {
		t.Errorf("%+v", v)
	}
	if v := Of(windows, .9); v.Action != Fine {
		t.Errorf("%+v", v)
	}
	for i := range windows {
		windows[i].Bursts, windows[i].Periods, windows[i].Throttled = 0, 5*windows[i].Periods, 5*windows[i].Throttled
	}
	if v := Of(windows, .01); v.Action != Unknown || v.Throttled != nil {
		t.Errorf("%+v", v)
	}
}

// TestInterval: the limit that demand of each family needs is between Low and High, though the family is
// not known.
func TestInterval(t *testing.T) {
	for f := range families {
		for _, length := range lengths() {
			s := shape{f, .45, length, .5}
			sums := sumsOf(counters(1, 100, s.demand(.3)))
			if total(sums).throttled < fewest {
				continue
			}
			exact := simulate(s)
			needs := exact.factor(sums, 1, .01)
			v := Of(counters(1, 100, s.demand(.3)), .01)
			t.Logf("%+v needs %.2f: %s", s, needs, v.Reason)
			const chance = 1.3
			if v.High == 0 || needs > v.High*chance || needs < v.Low/chance {
				t.Errorf("%+v needs %.2f, and the verdict is %.2f to %.2f", s, needs, v.Low, v.High)
			}
		}
	}
}

// TestShapes: throttling grows with the load, and is never more with a burst.
func TestShapes(t *testing.T) {
	for _, k := range kinds() {
		for i := range k {
			one := &k[i]
			last := [2]float64{}
			for load := .001; load < 1.2; load *= 1.1 {
				without, with := one.at(load, 0), one.at(load, 1)
				if without < last[0]-1e-9 || with < last[1]-1e-9 || with > without+1e-9 || without < 0 || without > 1 || math.IsNaN(without) {
					t.Fatalf("%+v at %v: %v without a burst and %v with one, after %v", one.shape, load, without, with, last)
				}
				last = [2]float64{without, with}
			}
		}
	}
}
