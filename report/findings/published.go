package findings

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"

	"pinfold.dev/pinfold/core/experiment"
)

// claim is a published figure beside the measured one.
type claim struct {
	What       string     // in one line
	Title      string     // above Rows
	Rows       [][]string // names, published and measured values, and their intervals
	Published  string     // what the conclusion is about
	Conclusion conclusion
	Note       string
}

// claimTable returns the table of claims.
func claimTable(all []claim) table {
	t := table{Heads: []string{"figure", "condition", "published", "measured", interval95}}
	for _, c := range all {
		t.Groups = append(t.Groups, group{c.Title, c.Rows})
	}
	return t
}

// prediction is what is predicted: a condition, from the recording of another one.
type prediction struct{ condition, from string }

// predicted is what a condition is predicted to be, or why it cannot be.
type predicted struct {
	values map[experiment.Figure]experiment.Value
	err    error
}

// predictions returns all that are compared with what was measured.
func (r Run) predictions() map[prediction]predicted {
	all := map[prediction]predicted{}
	for _, p := range r.Result.Config.Published {
		one := prediction{p.Condition, p.From}
		if _, known := all[one]; p.From != "" && !known {
			values, err := r.Result.Predict(context.Background(), p.Condition, p.From, r.Usage)
			all[one] = predicted{values, err}
		}
	}
	return all
}

// claims returns the published and predicted figures.
func (r Run) claims() []claim {
	var all []claim
	for _, p := range r.Result.Config.Published {
		c := r.compare(p.Answer)
		if p.From == "" {
			p = r.scaled(p)
			all = append(all, r.claim(p, experiment.Value{Estimate: p.Value, Low: p.Value, High: p.Value}, c))
			continue
		}
		predicted := r.predicted[prediction{p.Condition, p.From}]
		value := predicted.values[p.Figure]
		p.Value, p.Text = value.Estimate, joined(p.Figure.Format(value.Estimate), interval(p.Figure, value))+", predicted"
		if predicted.err != nil {
			p.Text = "not predicted"
		}
		one := r.claim(p, value, c)
		if predicted.err != nil {
			one.Conclusion = cannot(plain(predicted.err.Error()))
		}
		all = append(all, one)
	}
	return all
}

// scaled returns a published number of CPUs as its share of this machine, as those of the
// experiment are.
func (r Run) scaled(p experiment.Published) experiment.Published {
	scale := r.Result.Scale()
	if p.Of != 0 || experiment.Figures()[p.Figure].Unit != experiment.CPUs || scale.Factor() == 1 {
		return p
	}
	of := p.Value
	p.Value *= scale.Factor()
	p.Text = fmt.Sprintf("%s (%s of %d)", p.Figure.Format(p.Value), cmp.Or(p.Text, number(of)), scale.Full)
	return p
}

// claim compares a published figure with a comparison. of is the published value, with its interval
// if it is predicted.
func (r Run) claim(p experiment.Published, of experiment.Value, c experiment.Comparison) claim {
	f := p.Figure
	published := func(value float64) string {
		if p.Text == "" {
			return f.Format(value)
		}
		return ""
	}
	one := claim{Title: label(f) + r.load(c.Load), Conclusion: conclude(p, of, c), Note: plain(p.Note)}
	if p.Unjudged != "" {
		one.Conclusion = conclusion{"Not judged", plain(p.Unjudged)}
	}
	one.What = fmt.Sprintf("%s, %s", one.Title, plain(c.Condition))
	one.Published = cmp.Or(plain(p.Text), published(p.Value))
	one.Rows = [][]string{{plain(c.Condition), one.Published, measured(f, c.Value), interval(f, c.Value)}}
	if p.Of != 0 {
		one.What += " against " + plain(c.Baseline)
		one.Rows = append(one.Rows, []string{plain(c.Baseline), published(p.Of), measured(f, c.Base), interval(f, c.Base)})
		one.Published = change(p.Value / p.Of)
		one.Rows = append(one.Rows, []string{"change", one.Published, effect(c), spread(c)})
	}
	return one
}

// measured formats a value.
func measured(f experiment.Figure, v experiment.Value) string {
	switch {
	case v.Missing != "":
		return fewRequests
	case v.Rounds == 0:
		return "not measured"
	}
	return f.Format(v.Estimate)
}

// These stand in tables where sentences say why.
const (
	inconclusive = "cannot conclude"
	incomparable = "not comparable"
	fewRequests  = "too few slow requests"
)

// effect describes the change of a comparison, without its interval.
func effect(c experiment.Comparison) string {
	switch verdict := c.Verdict(); {
	case c.Unlike != "":
		return incomparable
	case verdict == experiment.Unknown:
		return inconclusive
	case verdict == experiment.Alike:
		return "less than " + percent(c.Margin-1)
	case c.Ratio.Rounds == 0: // there may be none of what was counted
		return direction(verdict)
	}
	return change(c.Ratio.Estimate)
}

// spread describes the interval of the change of a comparison, or "" without one.
func spread(c experiment.Comparison) string {
	if c.Unlike != "" {
		return ""
	}
	return changes(c.Ratio)
}

// joined returns a text with its interval.
func joined(text, interval string) string {
	if interval == "" {
		return text
	}
	return text + " (" + interval + ")"
}

// conclusion says what a published figure and the measured one mean together.
type conclusion struct{ Verdict, Reason string }

// String returns a sentence.
func (c conclusion) String() string { return c.Verdict + ": " + c.Reason + "." }

func cannot(reason string) conclusion { return conclusion{"Cannot conclude", reason} }

// conclude compares a published figure with what was measured.
func conclude(p experiment.Published, of experiment.Value, c experiment.Comparison) conclusion {
	if p.Of == 0 {
		return concludeValue(p, of, c.Value)
	}
	published, verdict := p.Value/p.Of, c.Verdict()
	within := c.Ratio.Rounds > 0 && c.Ratio.Low <= published && published <= c.Ratio.High
	unknown := verdict == experiment.Unknown
	switch {
	case verdict == experiment.Lower && c.Value.Estimate == 0 && published == 0:
		return conclusion{"Agrees", "it is 0 here, too"}
	case unknown && (c.Unlike != "" || c.Ratio.Rounds == 0 || !c.Ratio.Bounded()):
		return cannot(unclear(c))
	case within && (!unknown || published == 1) && wide(math.Log(c.Ratio.High/c.Ratio.Low), math.Log(published)):
		return cannot(fmt.Sprintf("the interval of the ratio, %s to %s, is wider than the published effect: %d rounds are too few", number(c.Ratio.Low), number(c.Ratio.High), c.Ratio.Rounds))
	case within && (!unknown || published == 1):
		return conclusion{"Agrees", "the measured interval contains the published change"}
	case within:
		return cannot(fmt.Sprintf("%s as well as the published ratio, %s%s", unclear(c), number(published), more(c)))
	case unknown:
		return cannot(fmt.Sprintf("%s but not the published ratio, %s%s", unclear(c), number(published), more(c)))
	}
	return differs(published, verdict, c)
}

// margin is the width of an interval of shares, or of logarithms of ratios, that suffices where the
// published effect is 0.
const margin = 0.05

// wide reports whether an interval with a width that contains a published effect contains what
// contradicts it as well: no effect, or one twice as large.
func wide(width, effect float64) bool { return width > cmp.Or(math.Abs(effect), margin) }

// differs is about a measured effect that is not the published one.
func differs(published float64, verdict experiment.Verdict, c experiment.Comparison) conclusion {
	same := published > 1 && verdict == experiment.Higher || published < 1 && verdict == experiment.Lower
	both := fmt.Sprintf("%s here, %s as published", joined(effect(c), changes(c.Ratio)), change(published))
	switch {
	case published == 1 || verdict == experiment.Alike:
		return conclusion{"Differs", both}
	case !same:
		return conclusion{"Opposite direction", both}
	case c.Ratio.Rounds == 0:
		return conclusion{"Same direction", both + "; one of them is 0 here in some rounds, so there is no interval of the ratio"}
	case math.Abs(math.Log(c.Ratio.Estimate)) < math.Abs(math.Log(published)):
		return conclusion{"Same direction, smaller effect", both}
	}
	return conclusion{"Same direction, larger effect", both}
}

// points formats a difference: that of shares in percentage points.
func points(f experiment.Figure, difference float64) string {
	return strings.Replace(f.Format(difference), "%", " points", 1)
}

// origin says where the value comes from that a measured one is compared with.
func origin(p experiment.Published) string {
	if p.From != "" {
		return "predicted"
	}
	return "published"
}

// concludeValue compares values where no baseline is published.
func concludeValue(p experiment.Published, of, v experiment.Value) conclusion {
	difference := v.Minus(of)
	switch contained := difference.Low <= 0 && difference.High >= 0; {
	case v.Rounds == 0:
		return cannot(noValue(v, p.Condition))
	case !v.Bounded():
		return cannot(few(v.Rounds))
	case !of.Bounded():
		return cannot(few(of.Rounds))
	case contained && wide(difference.High-difference.Low, p.Value) && p.From == "":
		return cannot(fmt.Sprintf("the measured interval, %s, is wider than the published value: %d rounds are too few", interval(p.Figure, v), v.Rounds))
	case contained && wide(difference.High-difference.Low, p.Value):
		return cannot(fmt.Sprintf("the interval of the difference is wider than the predicted value: %d rounds are too few", v.Rounds))
	case contained && p.From == "":
		return conclusion{"Agrees", "the measured interval contains the published value"}
	case contained:
		return conclusion{"Agrees", fmt.Sprintf("the interval of the difference, %s below to %s above what is predicted, contains 0", points(p.Figure, -difference.Low), points(p.Figure, difference.High))}
	case p.Value == 0 || v.Estimate == 0:
		return conclusion{"Differs", fmt.Sprintf("%s here, %s as %s", joined(p.Figure.Format(v.Estimate), interval(p.Figure, v)), p.Figure.Format(p.Value), origin(p))}
	}
	ratio := experiment.Value{Estimate: v.Estimate / p.Value, Low: 1 + difference.Low/p.Value, High: 1 + difference.High/p.Value, Rounds: v.Rounds}
	than := "than"
	if ratio.Estimate >= multiple {
		than = "as"
	}
	return conclusion{"Differs", fmt.Sprintf("%s %s %s%s", change(ratio.Estimate), than, origin(p), confident(" (", changes(ratio), ")"))}
}
