package advice

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/bandwidth/bandwidthtest"
)

const period = 100 * time.Millisecond

func drawAmounts(t *rapid.T) amounts {
	return rapid.SliceOfN(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, int64(4*period))), 1, 60).Draw(t, "demand")
}

// TestReplayIsController compares the number of throttled periods with the full model of the
// controller.
func TestReplayIsController(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wanted := drawAmounts(t)
		quota := time.Duration(rapid.IntRange(1000, 400_000).Draw(t, "quota")) * time.Microsecond
		burst := time.Duration(rapid.IntRange(0, int(quota/time.Microsecond)).Draw(t, "burst")) * time.Microsecond
		controller, err := bandwidthtest.NewController(bandwidth.Limits{Quota: quota, Period: period, Burst: burst})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range wanted {
			controller.Step(time.Duration(d))
		}
		if got, want := wanted.throttled(int64(quota), int64(burst), math.MaxInt64), controller.Stats().Throttled; int64(got) != want {
			t.Errorf("%d periods are throttled, the controller says %d", got, want)
		}
	})
}

// TestBurstsProperty compares one pass for all bursts with one pass per burst.
func TestBurstsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wanted := drawAmounts(t)
		quota := 100 * rapid.Int64Range(1, int64(period)/50).Draw(t, "quota")
		counts := phases{wanted}.bursts(quota)
		for percent := 0; percent <= maxBurst; percent += rapid.IntRange(1, 40).Draw(t, "step") {
			if want := (phases{wanted}).throttleRatio(quota, quota/100*int64(percent)); counts.ratio(percent) != want {
				t.Errorf("burst %d%%: %v, want %v", percent, counts.ratio(percent), want)
			}
		}
		ratio := rapid.Float64Range(0.001, 0.9).Draw(t, "ratio")
		b := counts.worthHaving(ratio)
		enough := ratio
		if counts.ratio(100) > ratio {
			enough = counts.ratio(100) + ratio/10
		}
		if counts.ratio(b) > enough || b > 0 && counts.ratio(b-1) <= enough {
			t.Errorf("a burst of %d%% is not the smallest that reaches %v", b, enough)
		}
	})
}

// TestSmallestLimitProperty checks the limit and the next smaller one.
func TestSmallestLimitProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wanted := drawAmounts(t)
		burst, ratio := rapid.Float64Range(0, 1).Draw(t, "burst"), rapid.Float64Range(0.001, 0.9).Draw(t, "ratio")
		steps := phases{wanted}.smallestLimit(period, burst, ratio)
		reached := func(steps int) bool {
			quota := quotaOf(stepsToCPUs(steps), period)
			return phases{wanted}.throttleRatio(quota, int64(burst*float64(quota))) <= ratio
		}
		if !reached(steps) || steps > 1 && reached(steps-1) {
			t.Errorf("%d steps are not the smallest", steps)
		}
		if without := (phases{wanted}).smallestLimit(period, 0, ratio); without < steps {
			t.Errorf("without burst %d steps suffice, with it %d", without, steps)
		}
		if looser := (phases{wanted}).smallestLimit(period, burst, min(1, 2*ratio)); looser > steps {
			t.Errorf("twice the ratio needs %d steps, the ratio %d", looser, steps)
		}
	})
}

// TestSmallestLimitOfRoundShares: 29 of 100 periods are 29%, although .29 times 100 is less than 29
// in binary.
func TestSmallestLimitOfRoundShares(t *testing.T) {
	wanted := make(amounts, 100)
	for i := range wanted {
		wanted[i] = int64(period) / 4
		if i%2 == 0 && i < 58 {
			wanted[i] = int64(period) * 3 / 4
		}
	}
	for shares := 1; shares < 100; shares++ {
		ratio := float64(shares) / 100
		steps := phases{wanted}.smallestLimit(period, 0, ratio)
		quota := quotaOf(stepsToCPUs(steps-1), period)
		if n := wanted.throttled(quota, 0, math.MaxInt64); n <= shares {
			t.Errorf("%d steps for %d of 100 periods, where one less throttles %d", steps, shares, n)
		}
	}
}

// TestAmountsOfNonsense: absurd values in files do not overflow.
func TestAmountsOfNonsense(t *testing.T) {
	cpus := []float64{0, 1e300, 1e9, math.MaxFloat64, 3e7, 1}
	a := amountsOf(cpus, time.Second)
	for _, quota := range []int64{1, int64(time.Second), int64(bandwidth.MaxQuota)} {
		if n := a.throttled(quota, quota, math.MaxInt64); n < 3 {
			t.Errorf("%d periods of %v are throttled with a quota of %d", n, cpus, quota)
		}
		counts := phases{a}.bursts(quota)
		if counts.ratio(0) < .5 || counts.ratio(maxBurst) < .5 {
			t.Errorf("%v %v with a quota of %d", counts.ratio(0), counts.ratio(maxBurst), quota)
		}
	}
	if steps := (phases{a}).smallestLimit(time.Second, 0, .01); steps <= 0 {
		t.Errorf("a limit of %d steps", steps)
	}
}
