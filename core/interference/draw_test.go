package interference

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/test/race"
)

// TestDrawers compares the draws of the fast drawers with the exact CDF (Kolmogorov-Smirnov test)
// and with the mean, also for a tiny mean, where ticks are coarse.
func TestDrawers(t *testing.T) {
	race.SkipLong(t)
	const n = 1 << 18
	for name, d := range map[string]demand.Distribution{
		"exponential": exponential(t, 0.7), "small exponential": exponential(t, 1e-5),
		"pareto 4": pareto(t, 4, 0.7), "pareto 2.5": pareto(t, 2.5, 0.3), "pareto 40": pareto(t, 40, 0.3),
	} {
		drawer := newDrawer(kindOf(1, independent(d)), roomTicks, streams(3)(1))
		if _, slow := drawer.(*sources); slow {
			t.Fatalf("%s has no fast drawer", name)
		}
		ticks := make([]int64, n)
		must.Do(t, drawer.draw(ticks))
		sum, squares, worst := 0.0, 0.0, 0.0
		slices.Sort(ticks)
		for i, x := range ticks {
			v := (float64(x) + quotaTicks + 0.5) / quotaTicks
			sum, squares = sum+v, squares+v*v
			worst = max(worst, math.Abs(d.CDF(v)-float64(i)/n), math.Abs(d.CDF(v)-float64(i+1)/n))
		}
		if worst *= math.Sqrt(n); worst > 1.95 { // exceeded by one seed in a thousand
			t.Errorf("%s: Kolmogorov-Smirnov %.2f", name, worst)
		}
		mean := sum / n
		if z := (mean - d.Mean()) / math.Sqrt((squares/n-mean*mean)/n); math.Abs(z) > 3.5 {
			t.Errorf("%s: the mean is %v, want %v, %.1f standard errors away", name, mean, d.Mean(), z)
		}
	}
}

// TestTail checks the end of the lowest layer and beyond, where the Kolmogorov-Smirnov test is
// weak.
func TestTail(t *testing.T) {
	need.This(t, "a long time")
	race.SkipLong(t)
	const n = 1 << 24
	for name, d := range map[string]density{"exponential": falling{}, "pareto": power{4}} {
		z, g := newZiggurat(d, quotaTicks), generator(5)
		end := z.widths[1]
		ticks := make([]int64, 4096)
		counts := map[float64]int{0.6 * end: 0, end: 0, 1.2 * end: 0, 1.5 * end: 0}
		for range n / len(ticks) {
			z.fill(ticks, 0, &g)
			for _, x := range ticks {
				if v := float64(x) / quotaTicks; v > 0.5*end {
					for at := range counts {
						if v > at {
							counts[at]++
						}
					}
				}
			}
		}
		for at, got := range counts {
			want := n * d.beyond(at) / d.beyond(0)
			if math.Abs(float64(got)-want) > 4*math.Sqrt(want) {
				t.Errorf("%s: %d of %d draws are above %v, want about %.0f", name, got, n, at, want)
			}
		}
	}
}

// TestOtherDemands: other demands come from package demand, with one source per group.
func TestOtherDemands(t *testing.T) {
	replay := must.Get(demand.NewReplay([]float64{1, 2, 3, 4}))(t)
	r := rand.New(rand.NewPCG(1, 1))
	ticks := make([]int64, 3*8)
	must.Do(t, newDrawer(kindOf(3, replay), roomTicks, r).draw(ticks))
	for i, x := range ticks[3:] {
		if want := (ticks[i] + quotaTicks) % (4 * quotaTicks); x != want {
			t.Errorf("%v: group %d does not go on with %d", ticks, i%3, want)
		}
	}
}
