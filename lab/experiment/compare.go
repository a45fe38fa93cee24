package experiment

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Comparison is a figure of a condition beside that of another one.
type Comparison struct {
	Answer
	Baseline    string
	Value, Base Value
	// Ratio is that of the two. It has no rounds if one of them can be 0.
	Ratio Value
	// P is the probability of a ratio that is so far from 1 if the conditions do not differ. It is below 5%
	// if the interval of the ratio excludes 1. Without a ratio it is that of the sign test, and NaN with too few rounds.
	// Threshold is the largest significant P: 5%, or less among many comparisons (the function Threshold).
	P, Threshold float64
	// LowerIn and HigherIn are the numbers of rounds, if there is no ratio.
	LowerIn, HigherIn int
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
	case c.Ratio.Rounds > 0 || c.LowerIn == c.HigherIn || !(c.P <= 1-confidence):
		return Unknown
	case c.LowerIn > c.HigherIn:
		return Lower
	}
	return Higher
}

// ByChance reports whether the interval of the ratio excludes 1, but P is above the threshold.
func (c Comparison) ByChance() bool { return c.P <= 1-confidence && c.P > c.Threshold }

// Same reports whether the interval of the ratio has nothing beyond a margin.
func (c Comparison) Same(margin float64) bool {
	return c.Unlike == "" && c.Ratio.Rounds > 0 && c.Ratio.Low >= 1/margin && c.Ratio.High <= margin
}

// More returns about how many more rounds a comparison needs until, with a power of 80%, it is significant or its
// interval has nothing beyond a margin, if the estimate is the true ratio. An interval gets narrower with the root of
// the number of rounds.
func (c Comparison) More(margin float64) int {
	if c.Missing > 0 {
		return c.Missing
	}
	normal := distuv.UnitNormal
	level := normal.Quantile((1 + confidence) / 2)
	deviation := math.Log(c.Ratio.High/c.Ratio.Low) / 2 / level // a little too large for few rounds
	distance := math.Abs(math.Log(c.Ratio.Estimate))
	power := normal.Quantile(0.8)
	significant := normal.Quantile(1-cmp.Or(c.Threshold, (1-confidence)/10)/2) + power // no threshold if nothing is significant
	times := min(significant/distance, (level+power)/max(0, math.Log(margin)-distance)) * deviation
	return int(max(1, min(1e6, math.Ceil(float64(c.Ratio.Rounds)*(times*times-1)))))
}

// CompareAll compares all conditions in all figures, for each result. Those that answer a question are significant
// among all of these, and the others among the others. All answers have a load, unless the experiment has none.
func CompareAll(results ...Result) []map[Answer]Comparison {
	all := make([]map[Answer]Comparison, len(results))
	ps := map[bool][]float64{} // by whether it is an answer
	for i, r := range results {
		all[i] = map[Answer]Comparison{}
		answers := r.answers()
		for _, a := range append(r.candidates(), answers...) {
			if _, done := all[i][a]; done {
				continue
			}
			c := r.Compare(a)
			if all[i][a] = c; c.Unlike == "" && c.Condition != c.Baseline {
				answer := slices.Contains(answers, a)
				ps[answer] = append(ps[answer], c.P)
			}
		}
	}
	thresholds := map[bool]float64{true: Threshold(ps[true]), false: Threshold(ps[false])}
	for i, comparisons := range all {
		answers := results[i].answers()
		for a, c := range comparisons {
			c.Threshold = thresholds[slices.Contains(answers, a)]
			comparisons[a] = c
		}
	}
	return all
}

// candidates returns each figure in each condition under each load.
func (r Result) candidates() (all []Answer) {
	figures := slices.Clone(r.Config.Figures)
	for _, a := range r.Config.Answers {
		figures = append(figures, a.Figure)
	}
	for _, p := range r.Config.Published {
		figures = append(figures, p.Figure)
	}
	slices.Sort(figures)
	for _, load := range r.Config.LoadNames() {
		for _, f := range slices.Compact(figures) {
			for _, condition := range r.Config.Conditions {
				all = append(all, Answer{Figure: f, Condition: condition.Name, Load: load})
			}
		}
	}
	return all
}

// answers returns the comparisons that answer a question, each with its load, without those of predictions.
func (r Result) answers() []Answer {
	all := slices.Clone(r.Config.Answers)
	for _, p := range r.Config.Published {
		if p.Of != 0 {
			all = append(all, p.Answer)
		}
	}
	for i := range all {
		all[i].Load = r.load(all[i].Load)
	}
	return all
}

// Concluded reports whether each answer says that the conditions differ, or not by more than the margin.
func (r Result) Concluded() bool {
	compared := CompareAll(r)[0]
	return !slices.ContainsFunc(r.answers(), func(a Answer) bool {
		c := compared[a]
		return c.Verdict() == Unknown && !c.Same(r.Config.Margin())
	})
}

// LoadNames returns the names of the loads, or "" without one.
func (c Config) LoadNames() []string {
	var names []string
	for _, l := range c.Loads {
		names = append(names, l.Name)
	}
	if names == nil {
		return []string{""}
	}
	return names
}

// Compare compares a figure of a condition with that of its baseline.
func (r Result) Compare(a Answer) Comparison {
	c := Comparison{Answer: a, Baseline: cmp.Or(a.Against, r.Baseline(a.Condition)), Threshold: 1 - confidence}
	c.Load = r.load(a.Load)
	of, base := r.estimate(a.Figure, a.Condition, c.Load), r.estimate(a.Figure, c.Baseline, c.Load)
	c.Value, c.Base = of.valueOf(a.Figure), base.valueOf(a.Figure)
	c.Ratio, c.P = of.over(base).bounds(true)
	if c.Ratio.Rounds == 0 {
		c.Ratio = Value{}
	}
	if c.Ratio.Rounds == 0 && of.resampled != nil && base.resampled != nil {
		c.LowerIn, c.HigherIn, c.P = r.signs(a.Figure, a.Condition, c.Baseline, c.Load)
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
