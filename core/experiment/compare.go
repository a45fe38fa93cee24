package experiment

import (
	"math"
	"slices"

	"golang.org/x/perf/benchmath"

	"pinfold.dev/pinfold/core/trace"
)

// confidence of intervals.
const confidence = 0.95

// Value is an estimate from several rounds, with an interval that contains the true one with a
// confidence of 95%. Low and High are infinite if there are too few rounds: fewer than six for a
// median.
type Value struct {
	Estimate, Low, High float64
	Rounds              int
}

// newValue returns the median of values, one per round. It changes their order.
func newValue(values []float64) Value {
	if len(values) == 0 {
		return Value{Estimate: math.NaN(), Low: math.Inf(-1), High: math.Inf(1)}
	}
	s := benchmath.AssumeNothing.Summary(sample(values), confidence)
	return Value{s.Center, s.Lo, s.Hi, len(values)}
}

func sample(values []float64) *benchmath.Sample {
	return benchmath.NewSample(values, &benchmath.DefaultThresholds)
}

// newMean returns the mean of values, one per round, with an interval by Student's t distribution.
// Nothing is above most. If they are shares of a number of periods, and none of these had what is
// counted, the share is at most 3/periods (rule of three).
func newMean(values []float64, most, periods float64) Value {
	s := benchmath.AssumeNormal.Summary(sample(values), confidence)
	v := Value{s.Center, max(0, s.Lo), min(most, s.Hi), len(values)}
	if v.High == 0 && periods > 0 {
		v.High = 3 / periods
	}
	return v
}

// Bounded reports whether there were enough rounds for an interval.
func (v Value) Bounded() bool { return !math.IsInf(v.Low, 0) && !math.IsInf(v.High, 0) }

// Comparison is a figure of a condition beside that of another one.
type Comparison struct {
	Answer
	Baseline    string
	Value, Base Value
	// Ratio is that of the values of each round. It has no rounds if a value of the baseline is 0.
	Ratio Value
	// P is the probability of values that differ so much if the conditions do not (Mann-Whitney U
	// test).
	P float64
	// Unlike is why the conditions cannot be compared, "" if they can.
	Unlike string
}

// Verdict is what a comparison says.
type Verdict int

// The verdicts.
const (
	Unknown Verdict = iota // cannot conclude
	Lower
	Higher
)

// Verdict returns whether the figure is higher or lower than that of the baseline.
func (c Comparison) Verdict() Verdict {
	switch {
	case c.Unlike != "":
		return Unknown
	case c.Ratio.Rounds > 0 && c.Ratio.Bounded() && c.Ratio.Low > 1:
		return Higher
	case c.Ratio.Rounds > 0 && c.Ratio.Bounded() && c.Ratio.High < 1:
		return Lower
	case c.Ratio.Rounds > 0 || !c.Value.Bounded() || !c.Base.Bounded():
		return Unknown
	case c.Value.Low > c.Base.High:
		return Higher
	case c.Value.High < c.Base.Low:
		return Lower
	}
	return Unknown
}

// Value returns the values of a figure in a condition, one per round of which there is an
// undisturbed window.
func (r Result) Value(f Figure, condition, load string) Value {
	return newValue(values(r.byRound(f, condition, r.load(load))))
}

// Average returns the mean of a figure in a condition over rounds, for a figure that is itself an
// average over periods: the median of what happens rarely would be 0. ok is false for other
// figures.
func (r Result) Average(a Answer) (v Value, ok bool) {
	if !slices.Contains(averages(), a.Figure) {
		return v, false
	}
	all := values(r.byRound(a.Figure, a.Condition, r.load(a.Load)))
	if len(all) < 2 {
		return newValue(all), true
	}
	most, periods := math.Inf(1), 0.
	if Figures()[a.Figure].Unit == Share {
		most = 1
	}
	for _, w := range r.Windows {
		if a.Figure == Full && w.Disturbed == "" && w.Condition == a.Condition && w.Load == r.load(a.Load) {
			periods += float64(w.To-w.From) / float64(trace.DefaultPeriod)
		}
	}
	return newMean(all, most, periods), true
}

// averages are the figures that are averages over periods.
func averages() []Figure { return []Figure{Full, Throttled, Backlog} }

// Compare compares a figure of a condition with that of its baseline.
func (r Result) Compare(a Answer) Comparison {
	c := Comparison{Answer: a, Baseline: r.Baseline(a.Condition)}
	c.Load = r.load(a.Load)
	of, base := r.byRound(a.Figure, a.Condition, c.Load), r.byRound(a.Figure, c.Baseline, c.Load)
	var ratios []float64
	for round, value := range of {
		if before, ok := base[round]; ok {
			ratios = append(ratios, value/before)
		}
	}
	c.Value, c.Base = newValue(values(of)), newValue(values(base))
	c.P = math.NaN()
	if len(of) > 0 && len(base) > 0 {
		c.P = benchmath.AssumeNothing.Compare(sample(values(of)), sample(values(base))).P
	}
	if !slices.ContainsFunc(ratios, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }) {
		c.Ratio = newValue(ratios)
	}
	c.Unlike = r.unlike(c)
	return c
}

// Baseline returns the condition that a condition is compared with.
func (r Result) Baseline(condition string) string {
	for _, c := range r.Config.Conditions {
		if c.Name == condition && c.Baseline != "" {
			return c.Baseline
		}
	}
	return r.Config.Conditions[0].Name
}

// load returns the name of a load, the first if it is "".
func (r Result) load(name string) string {
	if name == "" && len(r.Config.Loads) > 0 {
		return r.Config.Loads[0].Name
	}
	return name
}

// byRound returns the values of a figure in undisturbed windows.
func (r Result) byRound(f Figure, condition, load string) map[int]float64 {
	found := map[int]float64{}
	for _, w := range r.Windows {
		if value, ok := w.Figures[f]; ok && w.Disturbed == "" && w.Condition == condition && w.Load == load {
			found[w.Round] = value
		}
	}
	return found
}

func values(byRound map[int]float64) []float64 {
	all := make([]float64, 0, len(byRound))
	for _, value := range byRound {
		all = append(all, value)
	}
	slices.Sort(all)
	return all
}
