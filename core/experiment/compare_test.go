package experiment

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// noisy returns the statistics of two conditions, of which "with" is ratio times as large. The noise
// of a machine is partly the same for the windows of a round, and partly their own, with a standard
// deviation of the logarithm of sd. The statistics are p99s of exponential latencies, of which each
// window has count, in batches that have the same. If count is 0, they are averages.
func noisy(random *rand.Rand, rounds, count, batch int, ratio, sd float64) (alone, with statistic) {
	values, slow := [2]map[int]float64{{}, {}}, [2][]requests{}
	weights := map[int]float64{}
	for round := range rounds {
		weights[round] = 1
		common := math.Exp(0.2 * random.NormFloat64())
		for i, factor := range []float64{1, ratio} {
			scale := factor * common * math.Exp(sd*random.NormFloat64())
			values[i][round] = scale
			for range count / batch {
				slow[i] = append(slow[i], requests{scale * random.ExpFloat64(), round, int64(batch)})
			}
		}
	}
	if count > 0 {
		alone, with = pooled(.99, slow[0]), pooled(.99, slow[1])
		alone.missing, with.missing = "", "" // TestQuantileOfFewRounds is about that
		return alone, with
	}
	return average(values[0], weights), average(values[1], weights)
}

// TestCoverage checks two things for the numbers of rounds and the noise that experiments have: 95%
// of the intervals contain the true ratio, and 5% of the tests of equal conditions find a difference.
// The noise of whole rounds cancels out. Where windows differ so much that few of them decide, the
// intervals are too short: the table says how often they may miss.
func TestCoverage(t *testing.T) {
	const experiments = 250
	for _, test := range []struct {
		rounds, requests, batch int
		sd                      float64
		contained, found        int // in percent, at least and at most
	}{
		// 95% and 5%, and nearly three standard errors.
		{6, 0, 1, .05, 91, 9}, {10, 0, 1, .05, 91, 9}, {30, 0, 1, .05, 91, 9}, {6, 300, 1, .05, 91, 9}, {10, 150, 1, .05, 91, 9},
		{12, 100, 1, .05, 91, 9}, {30, 40, 1, .05, 91, 9}, {30, 40, 1, .3, 91, 9}, {10, 0, 1, .3, 91, 9}, {50, 200, 1, .05, 91, 9},
		{10, 0, 1, 1, 86, 9}, {30, 0, 1, 1, 91, 10}, {10, 150, 1, 1, 89, 14},
		// Batches whose requests all take as long, of two and six requests.
		{28, 44, 2, .05, 91, 9}, {19, 66, 6, .05, 91, 9},
	} {
		random := rand.New(rand.NewPCG(1, 2))
		contained, found := 0, 0
		for range experiments {
			alone, with := noisy(random, test.rounds, test.requests, test.batch, 1.3, test.sd)
			ratio, _, _ := change(with, alone)
			if ratio.Low <= 1.3 && 1.3 <= ratio.High {
				contained++
			}
			alone, with = noisy(random, test.rounds, test.requests, test.batch, 1, test.sd)
			if _, _, p := change(with, alone); p <= Significance {
				found++
			}
		}
		t.Logf("%+v: %.1f%% of the intervals contain the ratio, %.1f%% find a difference", test,
			100*float64(contained)/experiments, 100*float64(found)/experiments)
		if contained < experiments*test.contained/100 || found > experiments*test.found/100 {
			t.Errorf("%+v: %d of %d intervals contain the ratio, %d find a difference", test, contained, experiments, found)
		}
	}
}

// TestDrift checks how often the intervals of values contain the true one if the machine drifts:
// less often than they promise, but more often than without blocks.
func TestDrift(t *testing.T) {
	const experiments, rounds = 250, 32
	random := rand.New(rand.NewPCG(5, 6))
	contained := 0
	for range experiments {
		values, weights, at := map[int]float64{}, map[int]float64{}, 0.
		for round := range rounds {
			at = 0.5*at + random.NormFloat64()
			values[round], weights[round] = math.Exp(0.05*at), 1
		}
		if v := average(values, weights).value(); v.Low <= 1.001 && 1.001 <= v.High {
			contained++
		}
	}
	t.Logf("%d of %d intervals contain the value", contained, experiments)
	if contained < experiments*83/100 {
		t.Errorf("%d of %d intervals contain the value", contained, experiments)
	}
}

// TestLooks checks that runs which end when they can conclude find no more false differences than
// others, and that their intervals contain the ratio as often.
func TestLooks(t *testing.T) {
	const experiments = 250
	looks := []int{6, 12, 24}
	for _, ratio := range []float64{1, 1.3} {
		contained, found, rounds := 0, 0, 0
		for seed := range uint64(experiments) {
			for _, n := range looks {
				alone, with := noisy(rand.New(rand.NewPCG(seed, 1)), n, 0, 1, ratio, 0.05) // the first rounds are the same for any number
				with.looks = len(looks)
				c := Comparison{Level: Significance, Margin: DefaultMargin}
				if c.Ratio, c.Sign, c.P = change(with, alone); c.Verdict() == Unknown && n < looks[len(looks)-1] {
					continue
				}
				if c.Ratio.Low <= ratio && ratio <= c.Ratio.High {
					contained++
				}
				if v := c.Verdict(); v == Higher || v == Lower {
					found++
				}
				rounds += n
				break
			}
		}
		t.Logf("a ratio of %g: %.1f rounds, %.1f%% of the intervals contain it, %.1f%% find a difference", ratio,
			float64(rounds)/experiments, 100*float64(contained)/experiments, 100*float64(found)/experiments)
		if contained < experiments*91/100 || ratio == 1 && found > experiments*9/100 || ratio > 1 && rounds >= experiments*looks[len(looks)-1] {
			t.Errorf("%d of %d intervals contain the ratio, %d find a difference, in %d rounds", contained, experiments, found, rounds)
		}
	}
}

// TestNeeded checks that as many rounds as are said to be needed mostly show that two conditions are
// alike, or that they differ by the margin, and that a fifth of them seldom does.
func TestNeeded(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const experiments, margin = 250, DefaultMargin
	compare := func(rounds int, ratio float64) Comparison {
		alone, with := noisy(random, rounds, 0, 1, ratio, 0.05)
		c := Comparison{Level: Significance, Margin: margin}
		c.Ratio, c.Sign, c.P = change(with, alone)
		return c
	}
	sum := 0
	for range experiments {
		sum += needed(compare(12, 1).Ratio, margin, Significance)
	}
	rounds := sum / experiments
	// The deviation of a ratio is 0.05 * sqrt(2).
	if want := math.Pow((1.96+1.28)*.05*math.Sqrt2/math.Log(margin), 2); float64(rounds) < want || float64(rounds) > 1.5*want {
		t.Errorf("%d rounds are needed, want %.0f by the normal distribution, and some more", rounds, want)
	}
	alike, differ, early := 0, 0, 0
	for range experiments {
		if compare(rounds, 1).Verdict() == Alike {
			alike++
		}
		if compare(rounds, margin).Verdict() == Higher {
			differ++
		}
		if compare(max(MinRounds, rounds/5), 1).Verdict() == Alike {
			early++
		}
	}
	if alike < experiments*70/100 || differ < experiments*75/100 || early > experiments/4 {
		t.Errorf("of %d with %d rounds, %d are alike, %d differ, and %d are alike after fewer", experiments, rounds, alike, differ, early)
	}
}

// TestLevel checks which differences count, by the example of Benjamini and Hochberg (1995).
func TestLevel(t *testing.T) {
	ps := []float64{.0001, .0004, .0019, .0095, .0201, .0278, .0298, .0344, .0459, .3240, .4262, .5719, .6528, .7590, 1}
	if got, want := level(slices.Clone(ps)), .05*4/15; math.Abs(got-want) > 1e-12 {
		t.Errorf("%g, want %g", got, want)
	}
	for _, none := range [][]float64{nil, {.06}} {
		if got := level(none); got != .05 {
			t.Errorf("%v: %g, want .05", none, got)
		}
	}
}

// TestVerdicts checks what can be concluded from few rounds, disturbed windows, and baselines of 0.
func TestVerdicts(t *testing.T) {
	rounds := func(n int, alone, with float64) (all []Window) {
		for round := range n {
			noise := 1 + 0.01*float64(round%3)
			all = append(all, Window{Round: round, Condition: "alone", Figures: map[Figure]float64{P99: alone * noise}},
				Window{Round: round, Condition: "with", Figures: map[Figure]float64{P99: with * noise}})
		}
		return all
	}
	disturbed := rounds(6, 1, 2)
	disturbed[3].Disturbed = "other processes"
	repeated := append(disturbed, disturbed[3])
	repeated[len(repeated)-1].Disturbed = ""
	for _, test := range []struct {
		name    string
		windows []Window
		rounds  int // with a ratio
		want    Verdict
	}{
		{"none", nil, 0, Unknown},
		{"five", rounds(5, 1, 2), 5, Unknown},
		{"six", rounds(6, 1, 2), 6, Higher},
		{"lower", rounds(6, 2, 1), 6, Lower},
		{"equal", rounds(12, 1, 1), 12, Alike},
		{"one disturbed", disturbed, 5, Unknown},
		{"repeated", repeated, 6, Higher},
		{"from nothing", rounds(6, 0, .3), 0, Higher},
		{"to nothing", rounds(6, .3, 0), 0, Lower},
		{"nothing", rounds(6, 0, 0), 0, Unknown},
		{"only one condition", rounds(6, 1, 1)[:1], 0, Unknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := Result{Config: Config{Conditions: []Condition{{Name: "alone"}, {Name: "with"}}}, Windows: test.windows}
			c := r.Compare(Answer{Figure: P99, Condition: "with"})
			if c.Ratio.Rounds != test.rounds || c.Verdict() != test.want {
				t.Errorf("%d rounds, verdict %d, want %d, %d: %+v", c.Ratio.Rounds, c.Verdict(), test.rounds, test.want, c)
			}
		})
	}
}

// TestUnlike checks which conditions are not compared: those whose neighbours starve in one of
// them, and those whose planned requests need nearly all of a limit.
func TestUnlike(t *testing.T) {
	limited := map[string]json.RawMessage{"server": json.RawMessage(`{"limit": 1}`)}
	for _, test := range []struct {
		name          string
		figure        Figure
		client        Client
		others        [2]float64 // usage: baseline, condition
		used          float64    // in all rounds but
		over          int        // rounds, in which it is 0.94
		want, verdict bool
	}{
		{"alike", P99, Planned, [2]float64{1, 0.9}, 0.5, 0, false, true},
		{"no neighbours in the baseline", P99, Planned, [2]float64{0, 1}, 0.5, 0, false, true},
		{"half for the neighbours", P99, Planned, [2]float64{1.9, 0.95}, 0.5, 0, false, true},
		{"starved", P99, Wrk, [2]float64{0.711, 0.013}, 0.5, 0, true, false},
		{"starved in the baseline", Calls, Wrk, [2]float64{0.013, 0.711}, 0.5, 0, true, false},
		{"usage of the starved", Others, Wrk, [2]float64{0.711, 0.013}, 0.5, 0, false, true},
		{"overloaded", P99, Planned, [2]float64{0, 0}, 0.94, 0, true, false},
		{"overloaded in a third of the rounds", P99, Planned, [2]float64{0, 0}, 0.5, 2, true, false},
		{"overloaded in a sixth of the rounds", P99, Planned, [2]float64{0, 0}, 0.5, 1, false, true},
		{"overloaded, goodput", Goodput, Planned, [2]float64{0, 0}, 0.94, 0, false, true},
		{"clients wait", P99, Wrk, [2]float64{0, 0}, 0.94, 0, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := Result{Environment: Environment{CPUs: 4}, Config: Config{
				Services: []Service{{Name: "server"}}, Loads: []Load{{Name: "load", Client: test.client}},
				Conditions: []Condition{{Name: "without"}, {Name: "with", Services: limited}},
			}}
			for round := range 6 {
				for i, condition := range []string{"without", "with"} {
					figures := map[Figure]float64{test.figure: float64(1 + i), Used: test.used}
					figures[Others] = test.others[i]
					if round < test.over {
						figures[Used] = 0.94
					}
					r.Windows = append(r.Windows, Window{Round: round, Condition: condition, Load: "load", Figures: figures})
				}
			}
			c := r.Compare(Answer{Figure: test.figure, Condition: "with"})
			if unlike := c.Unlike != ""; unlike != test.want || c.Verdict() != Unknown != test.verdict {
				t.Errorf("unlike %q, verdict %d", c.Unlike, c.Verdict())
			}
		})
	}
}

// TestDisturbed checks what makes a window unusable.
func TestDisturbed(t *testing.T) {
	c := Config{Foreign: 0.02, Services: []Service{{Name: "server"}, {Name: "batch"}}, Conditions: []Condition{
		{Name: "alone", Services: map[string]json.RawMessage{"batch": json.RawMessage(`{"stopped": true}`)}}, {Name: "shared"},
		{Name: "static", Services: map[string]json.RawMessage{"server": json.RawMessage(`{"limit": 3, "policy": "static"}`)}},
	}}
	for _, test := range []struct {
		figures map[Figure]float64
		want    string
	}{
		{map[Figure]float64{Foreign: 0.02, Stolen: 0.02, P99: 1e9}, ""},
		{map[Figure]float64{Foreign: 0.021}, "other processes used 2.10% of the CPUs"},
		{map[Figure]float64{Stolen: 0.03}, "the hypervisor took 3.00% of the CPUs"},
	} {
		if got := c.Disturbed(Window{Condition: "alone", Figures: test.figures}, Environment{CPUs: 4}); got != test.want {
			t.Errorf("%v: %q, want %q", test.figures, got, test.want)
		}
	}
	for _, test := range []struct {
		condition         string
		generator, others float64
		want              string
	}{
		{"alone", 0.9, 0, ""},
		{"alone", 0.91, 0, "the load generator used 91.0% of its CPUs"},
		{"shared", 0.5, 0.5, ""},
		{"shared", 0.5, 0.07, "the other services used only 0.0700 CPUs"},
		{"static", 0.22, 0.5, ""},
		{"static", 0.24, 0.5, "the load generator used 96.0% of its CPUs"}, // of one of 4
	} {
		w := Window{Condition: test.condition, Figures: map[Figure]float64{Generator: test.generator, Others: test.others}}
		if got := c.Disturbed(w, Environment{CPUs: 4}); got != test.want {
			t.Errorf("%+v: %q", test, got)
		}
	}
}

// TestFormat checks significant digits and units.
func TestFormat(t *testing.T) {
	for _, test := range []struct {
		figure Figure
		value  float64
		want   string
	}{
		{P99, 0.123456, "0.123 ms"}, {P99, 12.3456, "12.3 ms"}, {P99, 1234.5, "1234 ms"}, {P99, 0, "0 ms"},
		{Throttled, 0.3333, "33.3%"}, {Calls, 22969.4, "22969/s"}, {Used, 0.5, "0.500 CPUs"}, {Goodput, 70696, "70696"},
	} {
		if got := test.figure.Format(test.value); got != test.want {
			t.Errorf("%s %g: %q, want %q", test.figure, test.value, got, test.want)
		}
	}
	for f, d := range Figures() {
		if d.Label == "" || f.Format(1) == "" {
			t.Errorf("%s: %+v", f, d)
		}
	}
}

// TestLastRound: a condition may have been measured in the last round and its baseline not.
func TestLastRound(t *testing.T) {
	r := Result{Config: small()}
	for round := range 8 {
		for _, condition := range r.Config.Conditions {
			if round < 7 || condition.Name != r.Config.Conditions[0].Name {
				r.Windows = append(r.Windows, Window{Round: round, Condition: condition.Name, Load: r.load(""), Figures: map[Figure]float64{Used: 1 + float64(round)}})
			}
		}
	}
	for _, condition := range r.Config.Conditions[1:] {
		if c := r.Compare(Answer{Figure: Used, Condition: condition.Name}); c.Ratio.Rounds != 7 || math.Abs(c.Ratio.Estimate-1) > 1e-12 {
			t.Errorf("%s: %+v", condition.Name, c.Ratio)
		}
	}
}
