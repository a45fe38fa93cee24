package experiment

import (
	"math"
	"slices"

	"pinfold.dev/pinfold/core/trace"
)

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
	return median(r.byRound(f, condition, r.load(load)))
}

// Average returns the mean of a figure in a condition over rounds, for a figure that is itself an
// average over periods: the median of what happens rarely would be 0. ok is false for other
// figures.
func (r Result) Average(a Answer) (v Value, ok bool) {
	if !slices.Contains(averages(), a.Figure) {
		return v, false
	}
	all := r.byRound(a.Figure, a.Condition, r.load(a.Load))
	most, periods := math.Inf(1), 0.
	if Figures()[a.Figure].Unit == Share {
		most = 1
	}
	for _, w := range r.Windows {
		if a.Figure == Full && w.Disturbed == "" && w.Condition == a.Condition && w.Load == r.load(a.Load) {
			periods += float64(w.To-w.From) / float64(trace.DefaultPeriod)
		}
	}
	return mean(all, most, periods), true
}

// averages are the figures that are averages over periods.
func averages() []Figure { return []Figure{Full, Throttled, Backlog} }

// Compare compares a figure of a condition with that of its baseline.
func (r Result) Compare(a Answer) Comparison {
	c := Comparison{Answer: a, Baseline: r.Baseline(a.Condition)}
	c.Load = r.load(a.Load)
	of, base := r.byRound(a.Figure, a.Condition, c.Load), r.byRound(a.Figure, c.Baseline, c.Load)
	c.Value, c.Base, c.Ratio, c.P = median(of), median(base), ratio(of, base), difference(of, base)
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
func (r Result) byRound(f Figure, condition, load string) byRound {
	found := byRound{}
	for _, w := range r.Windows {
		if value, ok := w.Figures[f]; ok && w.Disturbed == "" && w.Condition == condition && w.Load == load {
			found[w.Round] = value
		}
	}
	return found
}
