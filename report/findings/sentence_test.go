package findings

import (
	"math"
	"testing"

	"pinfold.dev/pinfold/core/experiment"
)

func value(low, median, high float64) experiment.Value {
	return experiment.Value{Low: low, Estimate: median, High: high, Rounds: 9}
}

func TestChanges(t *testing.T) {
	for _, test := range []struct {
		ratio            experiment.Value
		change, interval string
	}{
		{value(.54, .57, .6), "43% lower", "40% to 46%"},
		{value(0, 0, 0), "100% lower", ""},
		{value(.0002, .0003, .0004), "99.97% lower", "99.96% to 99.98%"},
		{value(.9, .96, 1), "4.0% lower", "0% to 10%"},
		{value(.97, .99, 1.05), "1.0% lower", "3.0% lower to 5.0% higher"},
		{value(1, 1, 1), "no change", ""},
		{value(1, 1, 1.2), "no change", "no change to 20% higher"},
		{value(.9, 1, 1.2), "no change", "10% lower to 20% higher"},
		{value(1.2, 1.23, 1.26), "23% higher", "20% to 26%"},
		{value(1.9999, 1.99999, 2.5), "100% higher", "100% to 150%"},
		{value(1.000001, 1.00002, 1.0003), "less than 0.01% higher", "less than 0.01% to 0.030%"},
		{value(3.9, 4.1, 4.44), "4.1 times as high", "3.9 to 4.4"},
		{value(.5, 3, 20), "3.0 times as high", "50% lower to 20 times as high"},
		{value(120, 5432, 1e9), "5432 times as high", "120 to 1e+09"},
		{infinite(.5, 3), "50% lower", ""},
	} {
		if got := change(test.ratio.Estimate); got != test.change {
			t.Errorf("%v: %q, want %q", test.ratio, got, test.change)
		}
		if got := changes(test.ratio); got != test.interval {
			t.Errorf("%v: interval %q, want %q", test.ratio, got, test.interval)
		}
	}
}

// compared returns a comparison of condition a with condition b. Its p is .01 if the interval of the
// ratio excludes 1 or, without a ratio, if those of the values exclude each other.
func compared(f experiment.Figure, v, base, ratio experiment.Value) experiment.Comparison {
	c := experiment.Comparison{Answer: experiment.Answer{Figure: f, Condition: "a", Load: "steady"}, Baseline: "b", Value: v, Base: base, Ratio: ratio,
		Sign: v.Estimate - base.Estimate, P: .5, Level: .05, Margin: 1.02}
	if ratio.Rounds > 0 {
		c.Sign, v, base = ratio.Estimate-1, ratio, experiment.Value{Low: 1, High: 1, Rounds: ratio.Rounds}
	}
	if ratio.Rounds >= experiment.MinRounds {
		c.Needed = 29
	}
	switch {
	case !v.Bounded() || !base.Bounded() || v.Rounds == 0 || base.Rounds == 0:
		c.P = math.NaN()
	case v.Low > base.High || v.High < base.Low:
		c.P = .01
	}
	return c
}

func TestAnswers(t *testing.T) {
	some, none, undefined := value(90, 100, 110), infinite(math.NaN(), 0), experiment.Value{}
	self := compared(experiment.Mean, some, some, value(1, 1, 1))
	self.Baseline = self.Condition
	named := compared(experiment.P99, some, some, value(.54, .57, .6))
	named.Condition, named.Baseline = "quota + burst", "without\na limit"
	starved := compared(experiment.P99, some, some, value(.54, .57, .6))
	starved.Unlike = "the neighbours starved"
	many := compared(experiment.P99, some, some, value(.9, .95, .99))
	many.Level = .001
	for want, c := range map[string]experiment.Comparison{
		"Cannot conclude whether p99 latency is higher or lower with a than with b: p is 0.010, and among all comparisons of this report a difference counts up to 0.001.":                                          many,
		"p99 latency is the same within 2.0% (95% interval 1.0% lower to 1.0% higher) with a as with b.":                                                                                                            compared(experiment.P99, some, some, value(.99, 1.001, 1.01)),
		"Cannot conclude anything about p99 latency: 32 requests are too few, 1000 are needed with a.":                                                                                                              compared(experiment.P99, experiment.Value{Missing: "32 requests are too few, 1000 are needed"}, some, undefined),
		"Cannot conclude whether p99 latency is higher or lower with a than with b: the neighbours starved.":                                                                                                        starved,
		"p99 latency is 43% lower (95% interval 40% to 46%) with a than with b.":                                                                                                                                    compared(experiment.P99, some, some, value(.54, .57, .6)),
		"p99 latency is 43% lower (95% interval 40% to 46%) with quota + burst than without a limit.":                                                                                                               named,
		"Answered requests are 23% higher (95% interval 20% to 26%) with a than with b.":                                                                                                                            compared(experiment.Calls, some, some, value(1.2, 1.23, 1.26)),
		"Goodput is 4.1 times as high (95% interval 3.9 to 4.4) with a as with b.":                                                                                                                                  compared(experiment.Goodput, some, some, value(3.9, 4.1, 4.4)),
		"Goodput is 50% higher with a than with b.":                                                                                                                                                                 compared(experiment.Goodput, some, some, value(1.5, 1.5, 1.5)),
		"Throttled periods are lower with a (0%, 95% interval 0 to 0%) than with b (33.0%, 95% interval 30.0 to 35.0%).":                                                                                            compared(experiment.Throttled, value(0, 0, 0), value(.3, .33, .35), undefined),
		"Throttled periods are higher with a (33.0%, 95% interval 30.0 to 35.0%) than with b (0%, 95% interval 0 to 0%).":                                                                                           compared(experiment.Throttled, value(.3, .33, .35), value(0, 0, 0), undefined),
		"Mean latency is 100 ms (95% interval 90.0 to 110 ms) with a.":                                                                                                                                              self,
		"Cannot conclude whether p99 latency is higher or lower with a than with b: the interval of the ratio, 0.97 to 1.05, contains 1 (no change); about 20 more rounds would show whether it is more than 2.0%.": compared(experiment.P99, some, some, value(.97, .99, 1.05)),
		"Cannot conclude whether p99 latency is higher or lower with a than with b: only 3 undisturbed rounds, at least 6 are needed.":                                                                              compared(experiment.P99, infinite(1, 3), infinite(2, 4), infinite(.5, 3)),
		"Cannot conclude whether throttled periods are higher or lower with a than with b: only 1 undisturbed round, at least 6 are needed.":                                                                        compared(experiment.Throttled, infinite(.3, 1), infinite(0, 4), undefined),
		"Cannot conclude whether throttled periods are higher or lower with a than with b: 1.00% and 0% may differ by chance (p is 0.500).":                                                                         compared(experiment.Throttled, value(0, .01, .02), value(0, 0, .01), undefined),
		"Cannot conclude whether p99 latency is higher or lower with a than with b: no undisturbed window has a value with b.":                                                                                      compared(experiment.P99, some, none, undefined),
		"Cannot conclude anything about p99 latency: no undisturbed window has a value with a.":                                                                                                                     compared(experiment.P99, none, some, undefined),
	} {
		if got := (Run{}).answer(c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestLoads: sentences name the load if there are several.
func TestLoads(t *testing.T) {
	r := Run{Result: experiment.Result{Config: experiment.Config{Loads: make([]experiment.Load, 2)}}}
	c := compared(experiment.Mean, value(90, 100, 110), value(90, 100, 110), value(.54, .57, .6))
	if got, want := r.answer(c), "Mean latency (load: steady) is 43% lower (95% interval 40% to 46%) with a than with b."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestConclusions(t *testing.T) {
	some, none, undefined := value(90, 100, 110), infinite(math.NaN(), 0), experiment.Value{}
	ratio := func(low, median, high float64) experiment.Comparison {
		return compared(experiment.P99, some, some, value(low, median, high))
	}
	for _, test := range []struct {
		value, of float64
		compared  experiment.Comparison
		want      string
	}{
		{57, 100, ratio(.54, .6, .7), "Agrees: the measured interval contains the published change."},
		{100, 100, ratio(.98, .99, 1.02), "Agrees: the measured interval contains the published change."},
		{100, 100, ratio(.2, .99, 5), "Cannot conclude: the interval of the ratio, 0.2 to 5, is wider than the published effect: 9 rounds are too few."},
		{57, 100, ratio(.01, .6, .99), "Cannot conclude: the interval of the ratio, 0.01 to 0.99, is wider than the published effect: 9 rounds are too few."},
		{0, 100, compared(experiment.Throttled, value(0, 0, 0), some, undefined), "Agrees: it is 0 here, too."},
		{57, 100, ratio(.7, .75, .8), "Same direction, smaller effect: 25% lower (20% to 30%) here, 43% lower as published."},
		{57, 100, ratio(.1, .2, .3), "Same direction, larger effect: 80% lower (70% to 90%) here, 43% lower as published."},
		{0, 100, ratio(.1, .2, .3), "Same direction, smaller effect: 80% lower (70% to 90%) here, 100% lower as published."},
		{57, 100, compared(experiment.Throttled, value(0, 0, 0), some, undefined), "Same direction: lower here, 43% lower as published; one of them is 0 here in some rounds, so there is no interval of the ratio."},
		{123, 100, ratio(1.3, 1.4, 1.5), "Same direction, larger effect: 40% higher (30% to 50%) here, 23% higher as published."},
		{123, 100, ratio(.54, .57, .6), "Opposite direction: 43% lower (40% to 46%) here, 23% higher as published."},
		{57, 100, ratio(1.2, 1.23, 1.26), "Opposite direction: 23% higher (20% to 26%) here, 43% lower as published."},
		{100, 100, ratio(1.2, 1.23, 1.26), "Differs: 23% higher (20% to 26%) here, no change as published."},
		{57, 100, ratio(.5, .8, 1.2), "Cannot conclude: the interval of the ratio, 0.5 to 1.2, contains 1 (no change) as well as the published ratio, 0.57; about 20 more rounds would show whether it is more than 2.0%."},
		{57, 100, ratio(.99, 1.001, 1.01), "Differs: less than 2.0% (1.0% lower to 1.0% higher) here, 43% lower as published."},
		{57, 100, ratio(.97, .99, 1.05), "Cannot conclude: the interval of the ratio, 0.97 to 1.05, contains 1 (no change) but not the published ratio, 0.57; about 20 more rounds would show whether it is more than 2.0%."},
		{57, 100, compared(experiment.P99, infinite(1, 3), infinite(1, 3), infinite(1, 3)), "Cannot conclude: only 3 undisturbed rounds, at least 6 are needed."},
		{57, 100, compared(experiment.P99, none, none, undefined), "Cannot conclude: no undisturbed window has a value with a."},
		{.3, .1, compared(experiment.Throttled, value(.3, .33, .35), value(0, 0, 0), undefined), "Same direction: higher here, 3.0 times as high as published; one of them is 0 here in some rounds, so there is no interval of the ratio."},
		{.1, .3, compared(experiment.Throttled, value(.3, .33, .35), value(0, 0, 0), undefined), "Opposite direction: higher here, 67% lower as published."},
		{105, 0, compared(experiment.P99, some, none, undefined), "Agrees: the measured interval contains the published value."},
		{105, 0, compared(experiment.P99, value(10, 100, 150), none, undefined), "Cannot conclude: the measured interval, 10.0 to 150 ms, is wider than the published value: 9 rounds are too few."},
		{.33, 0, compared(experiment.Throttled, value(0, .3, 1), none, undefined), "Cannot conclude: the measured interval, 0 to 100%, is wider than the published value: 9 rounds are too few."},
		{0, 0, compared(experiment.Throttled, value(0, .01, .02), none, undefined), "Agrees: the measured interval contains the published value."},
		{200, 0, compared(experiment.P99, some, none, undefined), "Differs: 50% lower than published (95% interval 45% to 55%)."},
		{20, 0, compared(experiment.P99, some, none, undefined), "Differs: 5.0 times as high as published (95% interval 4.5 to 5.5)."},
		{.2, 0, compared(experiment.Throttled, value(0, 0, 0), none, undefined), "Differs: 0% (0 to 0%) here, 20.0% as published."},
		{0, 0, compared(experiment.P99, some, none, undefined), "Differs: 100 ms (90.0 to 110 ms) here, 0 ms as published."},
		{100, 0, compared(experiment.P99, infinite(100, 2), none, undefined), "Cannot conclude: only 2 undisturbed rounds, at least 6 are needed."},
		{100, 0, compared(experiment.P99, none, none, undefined), "Cannot conclude: no undisturbed window has a value with a."},
	} {
		p := experiment.Published{Answer: test.compared.Answer, Value: test.value, Of: test.of}
		if got := conclude(p, experiment.Value{Estimate: p.Value, Low: p.Value, High: p.Value}, test.compared).String(); got != test.want {
			t.Errorf("published %v of %v: %q, want %q", test.value, test.of, got, test.want)
		}
	}
}

// TestDisturbances: reasons that differ in one number are counted together, with its range.
func TestDisturbances(t *testing.T) {
	var r Run
	disturbed := func(round int, reason string) {
		r.Result.Windows = append(r.Result.Windows, experiment.Window{Round: round, Disturbed: reason})
	}
	check := func(wantSummary string, want ...string) {
		t.Helper()
		summary, reasons := r.disturbances()
		if summary != wantSummary || len(reasons) != len(want) {
			t.Fatalf("%q, %q; want %q, %q", summary, reasons, wantSummary, want)
		}
		for i := range want {
			if reasons[i] != want[i] {
				t.Errorf("%q, want %q", reasons[i], want[i])
			}
		}
	}
	check("No window was measured.")
	disturbed(0, "the machine\nslept")
	check("1 of the 1 window was disturbed and not used. 1 condition of a round could not be measured without disturbance.",
		"1 window: the machine slept")
	disturbed(0, "other processes used 12.3% of the CPUs")
	disturbed(0, "other processes used 7% of the CPUs")
	disturbed(1, "other processes used 9% of the CPUs")
	disturbed(1, "")
	disturbed(0, "")
	check("4 of the 6 windows were disturbed and not used. Each was measured again without disturbance.",
		"3 windows: other processes used 7% to 12.3% of the CPUs", "1 window: the machine slept")
	for i := range 20 {
		disturbed(2, string(rune('a'+i)))
	}
	if _, reasons := r.disturbances(); len(reasons) != maxReasons+1 || reasons[maxReasons] != "14 other reasons" {
		t.Errorf("%q", reasons)
	}
}
