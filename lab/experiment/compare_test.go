package experiment

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// measured returns a result in which the p99 of "with" is ratio times that of "alone", both with
// the noise of a machine, which is partly the same for the windows of a round.
func measured(random *rand.Rand, rounds int, ratio float64) Result {
	r := Result{Config: Config{Conditions: []Condition{{Name: "alone"}, {Name: "with"}}, Foreign: .05}}
	for round := range rounds {
		common := math.Exp(0.1 * random.NormFloat64())
		for condition, factor := range map[string]float64{"alone": 1, "with": ratio} {
			value := factor * common * math.Exp(0.05*random.NormFloat64())
			r.Windows = append(r.Windows, Window{Round: round, Condition: condition, Figures: map[Figure]float64{P99: value}})
		}
	}
	return r
}

// TestIntervals checks that the interval contains the true ratio at least as often as it promises,
// and that it is as narrow as the noise within a round allows: that of whole rounds cancels out.
func TestIntervals(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const experiments, rounds = 400, 20
	contained, wrong, width := 0, 0, 0.0
	for range experiments {
		ratio := math.Exp(0.3 * random.NormFloat64())
		c := measured(random, rounds, ratio).Compare(Answer{Figure: P99, Condition: "with"})
		if c.Ratio.Low <= ratio && ratio <= c.Ratio.High {
			contained++
		}
		if v := c.Verdict(); v == Higher && ratio < 1 || v == Lower && ratio > 1 {
			wrong++
		}
		width += math.Log(c.Ratio.High/c.Ratio.Low) / experiments
	}
	// 95%, less four standard errors of the share of 400.
	if contained < experiments*907/1000 {
		t.Errorf("%d of %d intervals contain the ratio", contained, experiments)
	}
	if wrong > experiments*5/100 {
		t.Errorf("%d of %d verdicts are wrong", wrong, experiments)
	}
	// An interval of the median of differences with a deviation of 0.05 * sqrt(2), by order
	// statistics.
	if want := 2 * 2.1 * 1.25 * 0.05 * math.Sqrt(2.0/rounds); width > 1.3*want {
		t.Errorf("the intervals have a mean width of %.4f, want at most about %.4f", width, want)
	}
}

// TestDifference compares p with the definition of the test: of all ways to divide the values, the
// share in which the ranks of the first condition are as low, or as high, as they were measured.
func TestDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) []float64 {
			return rapid.SliceOfN(rapid.SampledFrom([]float64{0, 0, 1, 2, 2, 3.5}), 1, 6).Draw(t, name)
		}
		of, base := draw("of"), draw("base")
		all := slices.Concat(of, base)
		twoU := func(first uint) (sum int) { // twice the pairs in which a value of the first is larger
			for i, x := range all {
				for j, y := range all {
					if first>>i&1 == 1 && first>>j&1 == 0 {
						sum += 1 + cmp.Compare(x, y)
					}
				}
			}
			return sum
		}
		measured := twoU(1<<len(of) - 1)
		ways, lower, higher := 0., 0., 0.
		for first := range uint(1) << len(all) {
			if bits.OnesCount(first) != len(of) {
				continue
			}
			ways++
			if u := twoU(first); u < measured {
				lower++
			} else if u > measured {
				higher++
			}
		}
		equal := ways - lower - higher
		want := min(1, 2*(equal+min(lower, higher))/ways)
		rounds := func(values []float64) byRound { return maps.Collect(slices.All(values)) }
		got := difference(rounds(of), rounds(base))
		if math.Abs(got-want) > 1e-9 || got != difference(rounds(base), rounds(of)) {
			t.Fatalf("p = %g, want %g, for both orders", got, want)
		}
	})
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
		{"to nothing", rounds(6, .3, 0), 6, Lower},
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
		figures map[Figure]float64
		want    string
	}{
		{map[Figure]float64{Foreign: 0.02, Stolen: 0.02, P99: 1e9}, ""},
		{map[Figure]float64{Foreign: 0.021}, "other processes used 2.10% of the CPUs"},
		{map[Figure]float64{Stolen: 0.03}, "the hypervisor took 3.00% of the CPUs"},
	} {
		if got := c.Disturbed(Window{Figures: test.figures}); got != test.want {
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
