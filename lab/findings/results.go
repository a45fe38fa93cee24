package findings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/lab/experiment"
)

// results returns the table of published and predicted figures beside the measured ones, after the
// figures that answer the question and that nobody has published, and notes about them.
func (r Run) results() (t table, notes []string) {
	t.Heads = []string{"figure", "condition", "published", "measured", interval95, "verdict"}
	add := func(a experiment.Answer, cells []string) {
		name := label(a.Figure) + r.load(a.Load)
		if last := len(t.Groups) - 1; last < 0 || t.Groups[last].Name != name {
			t.Groups = append(t.Groups, group{Name: name})
		}
		g := &t.Groups[len(t.Groups)-1]
		g.Rows = append(g.Rows, cells)
	}
	published := r.Result.Config.Published
	for _, a := range r.Result.Config.Answers {
		if c := r.compare(a); !slices.ContainsFunc(published, func(p experiment.Published) bool { return p.Answer == a }) {
			add(c.Answer, r.answered(c))
		}
	}
	for _, p := range published {
		c := r.compare(p.Answer)
		note := plain(p.Note)
		if p.From == "" {
			add(c.Answer, r.result(p, c))
		} else if predicted, err := r.prediction(p); err != nil {
			add(c.Answer, valueRow(c, "not predicted", inconclusive))
			note = plain(err.Error())
		} else {
			add(c.Answer, valueRow(c, predictedText(p.Figure, predicted.Value), concludePredicted(predicted, c.Value)))
		}
		if note != "" {
			notes = append(notes, fmt.Sprintf("%s, %s: %s", label(p.Figure), plain(p.Condition), note))
		}
	}
	return t, notes
}

// answered returns the cells of a figure without a published one.
func (r Run) answered(c experiment.Comparison) []string {
	if c.Condition == c.Baseline {
		return valueRow(c, "", "")
	}
	verdict := direction(c.Verdict())
	if c.Verdict() == experiment.Unknown {
		verdict = r.unclear(c)
	}
	return []string{against(c), "", r.effect(c), spread(c), verdict}
}

// valueRow returns the cells of a measured value.
func valueRow(c experiment.Comparison, published, verdict string) []string {
	return []string{plain(c.Condition), published, measured(c.Figure, c.Value), interval(c.Figure, c.Value), verdict}
}

func against(c experiment.Comparison) string {
	return plain(c.Condition) + " against " + plain(c.Baseline)
}

// result returns the cells of a published figure.
func (r Run) result(p experiment.Published, c experiment.Comparison) []string {
	f := p.Figure
	if p.Of != 0 {
		published := change(p.Value/p.Of) + ": " + cmp.Or(plain(p.Text), f.Format(p.Of)+" to "+f.Format(p.Value))
		return []string{against(c), published, r.effect(c), spread(c), r.conclude(p, c)}
	}
	published, value := cmp.Or(plain(p.Text), f.Format(p.Value)), p.Value
	if scale := r.Result.Scale().Factor(); experiment.Figures()[f].Unit == experiment.CPUs && scale < 1 {
		value *= scale
		published += ": here " + f.Format(value)
	}
	return valueRow(c, published, concludeValue(value, c.Value))
}

// predictedFrom is a condition of which figures are predicted, and the one from whose usage.
type predictedFrom struct{ condition, from string }

// prediction predicts the figures of a condition when it is first called.
type prediction func() (map[experiment.Figure]experiment.Prediction, error)

// predictions returns the predictions that are asked for.
func (r Run) predictions() map[predictedFrom]prediction {
	all := map[predictedFrom]prediction{}
	for _, p := range r.Result.Config.Published {
		all[predictedFrom{p.Condition, p.From}] = sync.OnceValues(func() (map[experiment.Figure]experiment.Prediction, error) {
			return r.Result.Predict(context.Background(), p.Condition, p.From, r.Usage)
		})
	}
	return all
}

// prediction returns the prediction of a figure.
func (r Run) prediction(p experiment.Published) (experiment.Prediction, error) {
	figures, err := r.predicted[predictedFrom{p.Condition, p.From}]()
	v, ok := figures[p.Figure]
	if err == nil && !ok {
		err = errors.New("this figure is not predicted any more")
	}
	return v, err
}

func predictedText(f experiment.Figure, v experiment.Value) string {
	if !v.Bounded() {
		return f.Format(v.Estimate) + " (predicted)"
	}
	return fmt.Sprintf("%s (predicted, %s)", f.Format(v.Estimate), interval(f, v))
}

// measured formats an estimate.
func measured(f experiment.Figure, v experiment.Value) string {
	switch {
	case v.Rounds == 0:
		return "not measured"
	case math.IsNaN(v.Estimate):
		return "too few requests"
	}
	return f.Format(v.Estimate)
}

// Verdicts. A note says why conditions are not comparable.
const (
	inconclusive = "cannot conclude"
	incomparable = "not comparable"
	agrees       = "agrees"
	differs      = "differs"
	tooFew       = inconclusive + ": too few rounds"
)

// effect describes the change of a comparison, without its interval.
func (r Run) effect(c experiment.Comparison) string {
	switch verdict := c.Verdict(); {
	case c.Unlike != "":
		return incomparable
	case verdict == experiment.Unknown && c.Same(r.Result.Config.Margin()):
		return r.noDifference()
	case verdict == experiment.Unknown:
		return inconclusive
	case c.Ratio.Rounds == 0 && !vanishes(c):
		return direction(verdict)
	}
	return change(c.Ratio.Estimate) // 0 without a ratio
}

// vanishes reports whether a figure is 0, and that of the baseline is not.
func vanishes(c experiment.Comparison) bool {
	return c.Value.Rounds > 0 && c.Value.Estimate == 0 && c.Verdict() == experiment.Lower
}

func direction(v experiment.Verdict) string {
	if v == experiment.Higher {
		return "higher"
	}
	return "lower"
}

// spread describes the interval of the change of a comparison, or "" without one.
func spread(c experiment.Comparison) string {
	if c.Unlike != "" {
		return ""
	}
	if c.Ratio.Rounds == 0 && c.LowerIn+c.HigherIn > 0 {
		return byRound(c)
	}
	if c.Verdict() == experiment.Unknown && c.Ratio.Rounds > 0 && c.Ratio.Bounded() { // no estimate tells the direction
		return change(c.Ratio.Low) + " to " + change(c.Ratio.High)
	}
	return changes(c.Ratio)
}

// byRound says in how many rounds a figure without a ratio was lower or higher.
func byRound(c experiment.Comparison) string {
	if c.LowerIn+c.HigherIn == 0 {
		return "the same in all rounds"
	}
	switch {
	case c.HigherIn == 0:
		return "lower in " + quantity.Count(c.LowerIn, "round")
	case c.LowerIn == 0:
		return "higher in " + quantity.Count(c.HigherIn, "round")
	}
	return fmt.Sprintf("lower in %s, higher in %d", quantity.Count(c.LowerIn, "round"), c.HigherIn)
}

// unclear is the verdict on a comparison that does not say whether the conditions differ.
func (r Run) unclear(c experiment.Comparison) string {
	switch {
	case c.Unlike != "":
		return incomparable
	case c.Value.Rounds == 0:
		return inconclusive + ": not measured"
	case c.Missing == 0 && (c.Ratio.Rounds == 0 || !c.Ratio.Bounded()):
		return inconclusive + ": " + missing(c)
	case c.Same(r.Result.Config.Margin()):
		return r.noDifference()
	case c.ByChance():
		return inconclusive + ": not significant among all answers"
	}
	more := c.More(r.Result.Config.Margin())
	if more > maxMore {
		return inconclusive + ": this machine's windows differ too much"
	}
	return fmt.Sprintf("%s: about %s", inconclusive, quantity.Count(more, "more round"))
}

func (r Run) noDifference() string {
	return fmt.Sprintf("equal within %.3g%%", 100*(r.Result.Config.Margin()-1))
}

// maxMore is how many more rounds are worth a try.
const maxMore = 1000

// margin is the width of an interval that suffices if nothing was published, or an effect that is smaller.
const margin = 0.05

// wide reports whether an interval that contains what was published is wider than that: it contains what contradicts
// it as well, such as nothing, or twice as much.
func wide(v experiment.Value, published float64) bool {
	return v.High-v.Low > published
}

// conclude returns the verdict on a published change.
func (r Run) conclude(p experiment.Published, c experiment.Comparison) string {
	published, verdict := p.Value/p.Of, c.Verdict()
	unknown := verdict == experiment.Unknown
	bounded := c.Unlike == "" && c.Ratio.Rounds > 0 && c.Ratio.Bounded()
	within := bounded && c.Ratio.Low <= published && published <= c.Ratio.High
	switch {
	case within && (!unknown || published == 1):
		if wide(c.Ratio, max(math.Abs(1-published), margin)) {
			return tooFew
		}
		return agrees
	case unknown && bounded && !within:
		return differs
	case unknown:
		return r.unclear(c)
	case published == 1:
		return differs
	case (published > 1) != (verdict == experiment.Higher):
		return "opposite direction"
	case c.Ratio.Rounds == 0 && published == 0 && vanishes(c):
		return agrees
	case c.Ratio.Rounds == 0:
		return "same direction"
	case math.Abs(math.Log(c.Ratio.Estimate)) < math.Abs(math.Log(published)):
		return "same direction, smaller effect"
	}
	return "same direction, larger effect"
}

// concludeValue returns the verdict on a published value.
func concludeValue(published float64, v experiment.Value) string {
	within := v.Low <= published && published <= v.High
	switch {
	case v.Rounds == 0:
		return inconclusive
	case !v.Bounded() || within && wide(v, cmp.Or(published, margin)):
		return tooFew
	case within:
		return agrees
	}
	return differs
}

// concludePredicted returns the verdict on a predicted value: whether more or less was measured.
func concludePredicted(predicted experiment.Prediction, v experiment.Value) string {
	more := predicted.More
	switch {
	case v.Rounds == 0:
		return inconclusive
	case v.Estimate == 0: // in none of its rounds, so the interval of the difference is not known
		return concludeValue(predicted.Estimate, v)
	case more.Rounds == 0 || !more.Bounded():
		return tooFew
	case more.Low > 0 || more.High < 0:
		return differs
	case wide(more, predicted.Estimate):
		return tooFew
	}
	return agrees
}
