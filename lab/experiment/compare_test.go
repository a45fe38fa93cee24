package experiment

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"pinfold.dev/pinfold/test/must"
)

// measured returns a result in which latencies of "with" are ratio times those of "alone", both with the
// noise of a machine, which is partly the same for the windows of a round, and of requests.
func measured(t *testing.T, random *rand.Rand, rounds, requests int, spread, ratio float64) Result {
	r := Result{Config: Config{Conditions: []Condition{{Name: "alone"}, {Name: "with"}}, Foreign: .05}}
	for round := range rounds {
		common := math.Exp(0.1 * random.NormFloat64())
		for condition, factor := range map[string]float64{"alone": 1, "with": ratio} {
			own, h, mean := factor*common*math.Exp(spread*random.NormFloat64()), hdr.New(1, 100_000_000, 3), 0.
			for range requests {
				latency := 50 * own * math.Exp(0.5*random.NormFloat64()) // milliseconds
				must.Do(t, h.RecordValue(int64(1000*latency)))
				mean += latency / float64(requests)
			}
			r.Windows = append(r.Windows, Window{Round: round, Condition: condition, Figures: map[Figure]float64{P50: 0, P90: 0, P99: 0, Mean: mean},
				Latencies: must.Get(h.Encode(hdr.V2CompressedEncodingCookieBase))(t)})
		}
	}
	return r
}

// TestCoverage checks that the interval contains the true ratio about as often as it promises, for means and
// quantiles, with the numbers of rounds and requests that experiments have, and that it is as narrow as the
// noise within a round allows: that of whole rounds cancels out.
func TestCoverage(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const experiments = 100
	for _, test := range []struct {
		figure           Figure
		rounds, requests int
		spread           float64 // of windows: the deviation of the logarithm
	}{{Mean, 6, 40, .05}, {P90, 6, 40, .05}, {P50, 12, 40, .05}, {P99, 12, 200, .05}, {P99, 30, 40, .05},
		{Mean, 10, 40, 1}, {P90, 10, 100, 1}, {P99, 10, 200, 1}, {P99, 30, 40, 1}} {
		contained, wrong, width := 0, 0, 0.
		for range experiments {
			ratio := math.Exp(0.3 * random.NormFloat64())
			c := measured(t, random, test.rounds, test.requests, test.spread, ratio).Compare(Answer{Figure: test.figure, Condition: "with"})
			if c.Ratio.Low <= ratio && ratio <= c.Ratio.High {
				contained++
			}
			if v := c.Verdict(); v == Higher && ratio < 1 || v == Lower && ratio > 1 {
				wrong++
			}
			if significant := c.P < 1-confidence; significant != (c.Verdict() != Unknown) {
				t.Fatalf("%+v: p %g, verdict %d", test, c.P, c.Verdict())
			}
			width += math.Log(c.Ratio.High/c.Ratio.Low) / experiments
		}
		t.Logf("%+v: %d of %d intervals contain the ratio, %d verdicts are wrong; mean width %.3f", test, contained, experiments, wrong, width)
		if contained < 95-7 { // three standard errors of a share of 100
			t.Errorf("%+v: %d of %d intervals contain the ratio", test, contained, experiments)
		}
		if wrong > experiments*5/100 {
			t.Errorf("%+v: %d of %d verdicts are wrong", test, wrong, experiments)
		}
		// The deviations of rounds and requests, as if the figure were a mean of as many as count for it.
		within := 0.5 / math.Sqrt(float64(test.requests)*map[Figure]float64{Mean: 1, P50: .6, P90: .3, P99: .07}[test.figure])
		if want := 2 * 2.2 * math.Sqrt(2*(0.05*0.05+within*within)/float64(test.rounds)); test.spread == .05 && width > 1.4*want {
			t.Errorf("%+v: the intervals have a mean width of %.4f, want at most about %.4f", test, width, want)
		}
	}
}

// TestSequential checks that an experiment that looks after each round, and ends with an answer, is wrong no more
// often than one with a fixed number of rounds, that its interval contains the true ratio, and that it ends early.
func TestSequential(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	const experiments, most = 100, 30
	for _, test := range []struct{ ratio, early float64 }{{1, 0}, {1.1, .5}, {1.3, 1}} {
		contained, wrong, early, total := 0, 0, 0, 0
		for range experiments {
			r := measured(t, random, most, 20, .05, test.ratio)
			r.Config.Most, r.Config.Figures, r.Config.NoDifference = most, []Figure{Mean}, 1.001
			r.Config.Answers = []Answer{{Figure: Mean, Condition: "with"}}
			all, rounds := r.Windows, MinRounds
			for r.Windows = all[:2*rounds]; rounds < most && !r.Concluded(); r.Windows = all[:2*rounds] {
				rounds++
			}
			c := r.Compare(r.Config.Answers[0])
			if c.Ratio.Low <= test.ratio && test.ratio <= c.Ratio.High {
				contained++
			}
			if c.Verdict() == Higher && test.ratio <= 1 || c.Verdict() == Lower && test.ratio >= 1 {
				wrong++
			}
			if rounds < most {
				early++
			}
			total += rounds
		}
		t.Logf("ratio %g: %d of %d intervals contain it, %d verdicts are wrong, %d ended early; %.1f rounds of %d", test.ratio, contained, experiments, wrong, early, float64(total)/experiments, most)
		if contained < experiments*95/100-7 || wrong > experiments*5/100+7 { // three standard errors
			t.Errorf("ratio %g: %d of %d intervals contain it, %d verdicts are wrong", test.ratio, contained, experiments, wrong)
		}
		if float64(early) < test.early*experiments {
			t.Errorf("ratio %g: %d of %d ended early, want %g%%", test.ratio, early, experiments, 100*test.early)
		}
	}
}

// TestPooled: a quantile is that of all requests of all windows, and is not given for too few of them.
func TestPooled(t *testing.T) {
	r := Result{Config: Config{Conditions: []Condition{{Name: "alone"}}}}
	for round := range 10 {
		h := NewHistogram()
		for i := range 100 {
			must.Do(t, h.RecordValue(int64(1000*(1+100*round+i))))
		}
		r.Windows = append(r.Windows, Window{Round: round, Condition: "alone", Figures: map[Figure]float64{P50: 1, P99: 2, P999: 3},
			Latencies: must.Get(h.Encode(hdr.V2CompressedEncodingCookieBase))(t)})
	}
	for f, want := range map[Figure]float64{P50: 500, P99: 990} {
		if got := r.Compare(Answer{Figure: f, Condition: "alone"}).Value.Estimate; math.Abs(got-want) > 2 {
			t.Errorf("%s: %g ms, want %g", f, got, want)
		}
	}
	if got := r.Compare(Answer{Figure: P999, Condition: "alone"}).Value.Estimate; !math.IsNaN(got) {
		t.Errorf("a quantile beyond which one request is: %g", got)
	}
}

// TestThreshold compares with an example of Benjamini and Hochberg (1995).
func TestThreshold(t *testing.T) {
	ps := []float64{.0001, .0004, .0019, .0095, .0201, .0278, .0298, .0344, .0459, .324, .4262, .5719, .6528, .759, 1, math.NaN()}
	if got := Threshold(ps); got < .0095 || got >= .0201 {
		t.Errorf("the threshold %g has other results than the first four", got)
	}
	if got := Threshold(nil); got != 0 {
		t.Errorf("of nothing: %g", got)
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
		{"equal", rounds(12, 1, 1), 12, Unknown},
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
		used          float64    // of the baseline
		want, verdict bool
	}{
		{"alike", P99, Planned, [2]float64{1, 0.9}, 0.5, false, true},
		{"no neighbours in the baseline", P99, Planned, [2]float64{0, 1}, 0.5, false, true},
		{"half for the neighbours", P99, Planned, [2]float64{1.9, 0.95}, 0.5, false, true},
		{"starved", P99, Wrk, [2]float64{0.711, 0.013}, 0.5, true, false},
		{"starved in the baseline", Calls, Wrk, [2]float64{0.013, 0.711}, 0.5, true, false},
		{"usage of the starved", Others, Wrk, [2]float64{0.711, 0.013}, 0.5, false, true},
		{"overloaded", P99, Planned, [2]float64{0, 0}, 0.94, true, false},
		{"overloaded, goodput", Goodput, Planned, [2]float64{0, 0}, 0.94, false, true},
		{"clients wait", P99, Wrk, [2]float64{0, 0}, 0.94, false, true},
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
	c := Config{Foreign: 0.02}
	for _, test := range []struct {
		figures   map[Figure]float64
		generator float64
		want      string
	}{
		{map[Figure]float64{Foreign: 0.02, Stolen: 0.02, P99: 1e9}, 0.9, ""},
		{nil, 0.98, "the load generator used 98.0% of its CPUs"},
		{map[Figure]float64{Foreign: 0.021}, 0, "other processes used 2.10% of the CPUs"},
		{map[Figure]float64{Stolen: 0.03}, 0, "the hypervisor took 3.00% of the CPUs"},
	} {
		if got := c.Disturbed(Window{Figures: test.figures}, test.generator); got != test.want {
			t.Errorf("%v: %q, want %q", test.figures, got, test.want)
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
