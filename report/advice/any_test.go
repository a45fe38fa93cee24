package advice

import (
	"io"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/advice"
	"pinfold.dev/pinfold/core/interference/lindley"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
)

// TestAnyContainer: every possible result of core/advice can be rendered.
func TestAnyContainer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &Report{Goal: advice.DefaultGoal()}
		for range rapid.IntRange(1, 3).Draw(t, "containers") {
			r.Containers = append(r.Containers, anyContainer(t))
		}
		if err := r.HTML(io.Discard); err != nil {
			t.Errorf("page: %v", err)
		}
		if err := r.Text(io.Discard, rapid.IntRange(0, 200).Draw(t, "width"), rapid.Bool().Draw(t, "verbose")); err != nil {
			t.Errorf("text: %v", err)
		}
		if _, _, err := r.Patches(io.Discard); err != nil {
			t.Errorf("patches: %v", err)
		}
	})
}

func anyContainer(t *rapid.T) Container {
	amount := func(name string) float64 {
		return rapid.OneOf(rapid.Just(0.), rapid.Float64Range(1e-9, 1e6)).Draw(t, name)
	}
	share := func(name string) float64 {
		return rapid.OneOf(rapid.SampledFrom([]float64{0, 1}), rapid.Float64Range(0, 1)).Draw(t, name)
	}
	some := func(name string) *float64 {
		if value := share(name); rapid.Bool().Draw(t, name+" is known") {
			return &value
		}
		return nil
	}
	finding := advice.Finding{Enough: rapid.Bool().Draw(t, "enough"), Reason: rapid.String().Draw(t, "reason")}
	c := advice.Container{
		Group: rapid.String().Draw(t, "group"), Name: rapid.OneOf(rapid.Just("a/b/c"), rapid.String()).Draw(t, "name"),
		Recorded: advice.Recorded{Periods: rapid.IntRange(0, 1e6).Draw(t, "periods"), AverageCPUs: amount("average"), P99CPUs: some("p99"), PeakCPUs: some("peak"),
			LimitCPUs: amount("limit"), ThrottleRatio: some("throttled"), ThrottleRatioOfTimer: some("throttled of timer")},
		LimitWithoutBurst: advice.Limit{Finding: finding, LimitCPUs: amount("limit without")},
		LimitWithBurst:    advice.Limit{Finding: finding, LimitCPUs: amount("limit with"), BurstPercent: 100 * share("goal")},
		Burst:             advice.Burst{Finding: finding, BurstPercent: 100 * share("burst")},
	}
	window := time.Duration(1)
	for range rapid.IntRange(0, 4).Draw(t, "windows") {
		window += time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "longer"))
		c.Timescales = append(c.Timescales, trace.Scale{Window: quantity.Seconds{Duration: window}, Max: amount("max"), P99: amount("p99")})
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "points") {
		p := advice.CurvePoint{BurstPercent: float64(100 * i), ThrottleRatio: share("ratio")}
		if rapid.Bool().Draw(t, "independent") {
			probability := share("probability")
			p.Independent = &lindley.Throttling{Probability: probability, Lower: probability * share("lower"), Upper: math.Min(1, probability+share("upper"))}
		}
		c.Curve.Points = append(c.Curve.Points, p)
	}
	return Container{File: rapid.String().Draw(t, "file"), Container: c}
}
