package findings

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"pinfold.dev/pinfold/lab/experiment"
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

// compared returns a comparison of condition a with condition b.
func compared(f experiment.Figure, v, base, ratio experiment.Value) experiment.Comparison {
	return experiment.Comparison{Answer: experiment.Answer{Figure: f, Condition: "a", Load: "steady"}, Baseline: "b", Value: v, Base: base, Ratio: ratio, Threshold: .05}
}

// TestResults: figures that answer the question have a row, but not twice.
func TestResults(t *testing.T) {
	r := newMaker(t).burst(9)
	results, notes := Prepare([]Run{r})[0].results()
	var rows []string
	for _, cells := range results.flat() {
		rows = append(rows, strings.Join(slices.Delete(cells, 3, 5), "; "))
	}
	want := []string{
		"p99 latency (load: batches of 12); quota against without a limit; ; higher",
		"p99 latency (load: batches of 4); quota + burst against quota; 36% lower: 112 ms to 71.3 ms; same direction, larger effect",
		"throttled periods (load: batches of 4); quota + burst against quota; 100% lower: 33.0% to 0%; agrees",
		"usage (load: batches of 4); quota; 0.320 CPUs: here 0.160 CPUs; differs",
	}
	if !slices.Equal(rows, want) || !slices.Equal(notes, []string{"p99 latency, quota + burst: The document's server was larger."}) {
		t.Errorf("%q, notes %q", rows, notes)
	}
}

func TestVerdicts(t *testing.T) {
	some, none, undefined := value(90, 100, 110), infinite(math.NaN(), 0), experiment.Value{}
	ratio := func(low, median, high float64) experiment.Comparison {
		return compared(experiment.P99, some, some, value(low, median, high))
	}
	byChance := ratio(.54, .6, .7)
	byChance.P, byChance.Threshold = .02, .01
	inRounds := func(lower, higher int) experiment.Comparison {
		c := compared(experiment.Throttled, value(.3, .33, .35), value(0, 0, 0), undefined)
		c.LowerIn, c.HigherIn, c.P = lower, higher, distuv.Binomial{N: 9, P: .5}.CDF(float64(lower))*2
		return c
	}
	for _, test := range []struct {
		value, of float64
		compared  experiment.Comparison
		want      string
	}{
		{57, 100, ratio(.54, .6, .7), "agrees"},
		{100, 100, ratio(.98, .99, 1.02), "agrees"},
		{100, 100, ratio(.2, .99, 5), "cannot conclude: too few rounds"},
		{57, 100, ratio(.01, .6, .99), "cannot conclude: too few rounds"},
		{0, 100, ratio(0, 0, 0), "agrees"},
		{57, 100, ratio(.7, .75, .8), "same direction, smaller effect"},
		{57, 100, ratio(.1, .2, .3), "same direction, larger effect"},
		{0, 100, ratio(.1, .2, .3), "same direction, smaller effect"},
		{57, 100, ratio(0, 0, 0), "same direction, larger effect"},
		{123, 100, ratio(1.3, 1.4, 1.5), "same direction, larger effect"},
		{123, 100, ratio(.54, .57, .6), "opposite direction"},
		{57, 100, ratio(1.2, 1.23, 1.26), "opposite direction"},
		{100, 100, ratio(1.2, 1.23, 1.26), "differs"},
		{57, 100, ratio(.5, .8, 1.2), "cannot conclude: about 62 more rounds"},
		{57, 100, ratio(.97, .99, 1.05), "differs"},
		{103, 100, ratio(.97, .99, 1.05), "equal within 5%"},
		{103, 100, ratio(.97, .999, 1.06), "cannot conclude: about 7 more rounds"},
		{57, 100, ratio(.001, .95, 900), "cannot conclude: this machine's windows differ too much"},
		{57, 100, byChance, "cannot conclude: not significant among all answers"},
		{57, 100, compared(experiment.P99, infinite(1, 3), infinite(1, 3), infinite(1, 3)), "cannot conclude: too few rounds"},
		{57, 100, compared(experiment.P99, none, none, undefined), "cannot conclude: not measured"},
		{.3, .1, inRounds(0, 9), "same direction"},
		{.1, .3, inRounds(0, 9), "opposite direction"},
		{.1, .3, inRounds(3, 6), "cannot conclude: lower in 3 rounds, higher in 6"},
		{105, 0, compared(experiment.P99, some, none, undefined), "agrees"},
		{105, 0, compared(experiment.P99, value(10, 100, 150), none, undefined), "cannot conclude: too few rounds"},
		{.33, 0, compared(experiment.Throttled, value(0, .3, 1), none, undefined), "cannot conclude: too few rounds"},
		{0, 0, compared(experiment.Throttled, value(0, .01, .02), none, undefined), "agrees"},
		{200, 0, compared(experiment.P99, some, none, undefined), "differs"},
		{20, 0, compared(experiment.P99, some, none, undefined), "differs"},
		{.2, 0, compared(experiment.Throttled, value(0, 0, 0), none, undefined), "differs"},
		{0, 0, compared(experiment.P99, some, none, undefined), "differs"},
		{100, 0, compared(experiment.P99, infinite(100, 2), none, undefined), "cannot conclude: too few rounds"},
		{100, 0, compared(experiment.P99, none, none, undefined), "cannot conclude"},
	} {
		p := experiment.Published{Answer: test.compared.Answer, Value: test.value, Of: test.of}
		got := concludeValue(p.Value, test.compared.Value)
		if p.Of != 0 {
			got = Run{}.conclude(p, test.compared)
		}
		if got != test.want {
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
