package experiment

import "math"

// Comparison is a figure of a condition beside that of another one.
type Comparison struct {
	Answer
	Baseline    string
	Value, Base Value
	// Ratio is that of the two. It has no rounds if the baseline's can be 0.
	Ratio Value
	// P is the probability of a ratio that is so far from 1 if the conditions do not differ. It is below 5%
	// if the interval of the ratio excludes 1, and NaN without an interval. Threshold is the largest significant
	// P: 5%, or less among many comparisons (the function Threshold).
	P, Threshold float64
	// Missing is how many more rounds must be there for the quantile: it is not given if fewer than ten
	// requests are slower.
	Missing int
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
	case c.Unlike != "" || c.ByChance():
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

// ByChance reports whether the interval of the ratio excludes 1, but P is above the threshold.
func (c Comparison) ByChance() bool { return c.P <= 1-confidence && c.P > c.Threshold }

// More returns about how many more rounds a comparison needs until its interval excludes 1 or has nothing beyond
// a margin. An interval gets narrower with the root of the number of rounds.
func (c Comparison) More(margin float64) int {
	if c.Missing > 0 {
		return c.Missing
	}
	distance := math.Abs(math.Log(c.Ratio.Estimate))
	wanted := max(distance, math.Log(margin)-distance)
	times := math.Log(c.Ratio.High/c.Ratio.Low) / 2 / wanted
	return int(max(1, min(1e6, math.Ceil(float64(c.Ratio.Rounds)*(times*times-1)))))
}

// Compare compares a figure of a condition with that of its baseline.
func (r Result) Compare(a Answer) Comparison {
	c := Comparison{Answer: a, Baseline: r.Baseline(a.Condition), Threshold: 1 - confidence}
	c.Load = r.load(a.Load)
	of, base := r.estimate(a.Figure, a.Condition, c.Load), r.estimate(a.Figure, c.Baseline, c.Load)
	c.Value, c.Base = r.value(a.Figure, of, a.Condition, c.Load), r.value(a.Figure, base, c.Baseline, c.Load)
	c.Ratio, c.P = of.over(base).bounds(true)
	if c.Ratio.Rounds == 0 {
		c.Ratio = Value{}
	}
	c.Missing, c.Unlike = max(0, of.missing, base.missing), r.unlike(c)
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
