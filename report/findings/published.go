package findings

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"pinfold.dev/pinfold/core/experiment"
)

// claim is a published figure beside the measured one.
type claim struct {
	What  string     // in one line
	Title string     // above Rows
	Rows  [][]string // names, published and measured values, and their intervals
	// Published and Measured are what the conclusion compares, Measured with its interval.
	Published, Measured string
	Conclusion          conclusion
	Note                string
}

// claimTable returns the table of claims.
func claimTable(all []claim) table {
	t := table{Heads: []string{"figure", "condition", "published", "measured", interval95}}
	for _, c := range all {
		t.Groups = append(t.Groups, group{c.Title, c.Rows})
	}
	return t
}

// claims returns the published and predicted figures.
func (r Run) claims() []claim {
	var all []claim
	for _, p := range r.Result.Config.Published {
		c := r.Result.Compare(p.Answer)
		if p.From == "" {
			all = append(all, r.claim(p, c))
			continue
		}
		predicted, err := r.Result.Predict(context.Background(), p, r.Usage)
		p.Value, p.Text = predicted, p.Figure.Format(predicted)+" (predicted)"
		if err != nil {
			p.Text = "not predicted"
		}
		one := r.claim(p, c)
		if err != nil {
			one.Conclusion = cannot(plain(err.Error()))
		}
		all = append(all, one)
	}
	return all
}

func (r Run) claim(p experiment.Published, c experiment.Comparison) claim {
	f := p.Figure
	mean := ""
	if average, ok := r.Result.Average(p.Answer); ok && p.Of == 0 {
		c.Value, mean = average, " (mean)" // like published and predicted values
	}
	published := func(value float64) string {
		if p.Text == "" {
			return f.Format(value)
		}
		return ""
	}
	one := claim{Title: label(f) + r.load(c.Load), Conclusion: conclude(p, c), Note: plain(p.Note)}
	one.What = fmt.Sprintf("%s, %s", one.Title, plain(c.Condition))
	one.Published = cmp.Or(plain(p.Text), published(p.Value))
	value, spreading := measured(f, c.Value)+mean, interval(f, c.Value)
	one.Rows = [][]string{{plain(c.Condition), one.Published, value, spreading}}
	if p.Of != 0 {
		one.What += " against " + plain(c.Baseline)
		one.Rows = append(one.Rows, []string{plain(c.Baseline), published(p.Of), measured(f, c.Base), interval(f, c.Base)})
		one.Published, value, spreading = change(p.Value/p.Of), effect(c), spread(c)
		one.Rows = append(one.Rows, []string{"change", one.Published, value, spreading})
	}
	one.Measured = joined(value, spreading)
	return one
}

// measured formats a median.
func measured(f experiment.Figure, v experiment.Value) string {
	if v.Rounds == 0 {
		return "not measured"
	}
	return f.Format(v.Estimate)
}

// These stand in tables where sentences say why.
const (
	inconclusive = "cannot conclude"
	incomparable = "not comparable"
)

// effect describes the change of a comparison, without its interval.
func effect(c experiment.Comparison) string {
	switch verdict := c.Verdict(); {
	case c.Unlike != "":
		return incomparable
	case verdict == experiment.Unknown:
		return inconclusive
	case c.Ratio.Rounds == 0:
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
func conclude(p experiment.Published, c experiment.Comparison) conclusion {
	if p.Of == 0 {
		return concludeValue(p, c.Value)
	}
	published, verdict := p.Value/p.Of, c.Verdict()
	within := c.Ratio.Rounds > 0 && c.Ratio.Low <= published && published <= c.Ratio.High
	unknown := verdict == experiment.Unknown
	switch {
	case unknown && (c.Unlike != "" || c.Ratio.Rounds == 0 || !c.Ratio.Bounded()):
		return cannot(unclear(c))
	case within && (!unknown || published == 1) && wide(c.Ratio, 1-published):
		return cannot(fmt.Sprintf("the interval of the ratio, %s to %s, is wider than the published effect: %d rounds are too few", number(c.Ratio.Low), number(c.Ratio.High), c.Ratio.Rounds))
	case within && (!unknown || published == 1):
		return conclusion{"Agrees", "the measured interval contains the published change"}
	case within:
		return cannot(fmt.Sprintf("%s as well as the published ratio, %s", unclear(c), number(published)))
	case unknown:
		return cannot(fmt.Sprintf("%s but not the published ratio, %s", unclear(c), number(published)))
	}
	return differs(published, verdict, c)
}

// margin is the width of an interval of shares or ratios that suffices even where the published
// effect is smaller.
const margin = 0.05

// wide reports whether an interval that contains a published effect contains what contradicts it as
// well: no effect, or one twice as large.
func wide(v experiment.Value, effect float64) bool {
	return v.High-v.Low > max(math.Abs(effect), margin)
}

// differs is about a measured effect that is not the published one.
func differs(published float64, verdict experiment.Verdict, c experiment.Comparison) conclusion {
	same := published > 1 && verdict == experiment.Higher || published < 1 && verdict == experiment.Lower
	both := fmt.Sprintf("%s here, %s as published", joined(effect(c), changes(c.Ratio)), change(published))
	switch {
	case published == 1:
		return conclusion{"Differs", both}
	case !same:
		return conclusion{"Opposite direction", both}
	case c.Ratio.Rounds == 0:
		return conclusion{"Same direction", both + "; the baseline is 0 here in some round, so there is no ratio"}
	case math.Abs(math.Log(c.Ratio.Estimate)) < math.Abs(math.Log(published)):
		return conclusion{"Same direction, smaller effect", both}
	}
	return conclusion{"Same direction, larger effect", both}
}

// origin says where the value comes from that a measured one is compared with.
func origin(p experiment.Published) string {
	if p.From != "" {
		return "predicted"
	}
	return "published"
}

// concludeValue compares values where no baseline is published.
func concludeValue(p experiment.Published, v experiment.Value) conclusion {
	switch {
	case v.Rounds == 0:
		return cannot(noWindow(p.Condition))
	case !v.Bounded():
		return cannot(few(v.Rounds))
	case v.Low <= p.Value && p.Value <= v.High && wide(v, p.Value):
		return cannot(fmt.Sprintf("the measured interval, %s, is wider than the %s value: %d rounds are too few", interval(p.Figure, v), origin(p), v.Rounds))
	case v.Low <= p.Value && p.Value <= v.High:
		return conclusion{"Agrees", "the measured interval contains the " + origin(p) + " value"}
	case p.Value == 0 || v.Estimate == 0:
		return conclusion{"Differs", fmt.Sprintf("%s here, %s as %s", joined(p.Figure.Format(v.Estimate), interval(p.Figure, v)), p.Figure.Format(p.Value), origin(p))}
	}
	ratio := experiment.Value{Estimate: v.Estimate / p.Value, Low: v.Low / p.Value, High: v.High / p.Value, Rounds: v.Rounds}
	than := "than"
	if ratio.Estimate >= multiple {
		than = "as"
	}
	return conclusion{"Differs", fmt.Sprintf("%s %s %s%s", change(ratio.Estimate), than, origin(p), confident(" (", changes(ratio), ")"))}
}
