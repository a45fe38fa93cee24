package findings

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"pinfold.dev/pinfold/core/experiment"
	"pinfold.dev/pinfold/core/quantity"
)

// answer returns a sentence that answers a question with a comparison.
func (r Run) answer(c experiment.Comparison) string {
	what, is, with, base := label(c.Figure)+r.load(c.Load), be(c.Figure), with(c.Condition), with(c.Baseline)
	switch verdict := c.Verdict(); {
	case c.Value.Rounds == 0:
		return fmt.Sprintf("Cannot conclude anything about %s: %s.", what, noValue(c.Value, c.Condition))
	case c.Condition == c.Baseline:
		return sentence(fmt.Sprintf("%s %s %s%s %s.", what, is, c.Figure.Format(c.Value.Estimate), confident(" (", interval(c.Figure, c.Value), ")"), with))
	case verdict == experiment.Alike:
		return sentence(fmt.Sprintf("%s %s the same within %s%s %s as %s.", what, is, percent(c.Margin-1), confident(" (", changes(c.Ratio), ")"), with, base))
	case verdict == experiment.Unknown:
		return fmt.Sprintf("Cannot conclude whether %s %s higher or lower %s than %s: %s%s.", what, is, with, base, unclear(c), more(c))
	case c.Ratio.Rounds == 0:
		return sentence(fmt.Sprintf("%s %s %s %s (%s) than %s (%s).", what, is, direction(verdict), with, amount(c.Figure, c.Value), base, amount(c.Figure, c.Base)))
	case c.Ratio.Estimate >= multiple:
		return sentence(fmt.Sprintf("%s %s %s%s %s as %s.", what, is, change(c.Ratio.Estimate), confident(" (", changes(c.Ratio), ")"), with, base))
	}
	return sentence(fmt.Sprintf("%s %s %s%s %s than %s.", what, is, change(c.Ratio.Estimate), confident(" (", changes(c.Ratio), ")"), with, base))
}

// verdict is an answer in a few words.
type verdict struct{ What, Effect, Says string }

func (r Run) verdict(c experiment.Comparison) verdict {
	v := verdict{What: label(c.Figure) + r.load(c.Load) + ", " + plain(c.Condition)}
	if c.Condition == c.Baseline {
		v.Effect = joined(measured(c.Figure, c.Value), interval(c.Figure, c.Value))
		return v
	}
	v.What += " against " + plain(c.Baseline)
	v.Effect = joined(measured(c.Figure, c.Value), interval(c.Figure, c.Value)) + " against " + joined(measured(c.Figure, c.Base), interval(c.Figure, c.Base))
	if c.Unlike != "" {
		v.Effect = ""
	} else if c.Ratio.Rounds > 0 {
		v.Effect = joined(change(c.Ratio.Estimate), changes(c.Ratio))
	}
	v.Says = says(c)
	return v
}

// says returns the verdict of a comparison in a few words.
func says(c experiment.Comparison) string {
	switch verdict := c.Verdict(); {
	case c.Unlike != "":
		return incomparable
	case verdict == experiment.Alike:
		return "the same within " + percent(c.Margin-1)
	case verdict != experiment.Unknown:
		return direction(verdict)
	case c.Needed > experiment.MaxRounds:
		return inconclusive + ", this machine is too noisy"
	case c.Needed > c.Ratio.Rounds:
		return inconclusive + ", " + quantity.Count(c.Needed-c.Ratio.Rounds, "round") + " missing"
	}
	return inconclusive
}

// withDisturbed says what a comparison would be if no window was left out or measured again, where
// that changes its verdict, or is outside of its interval. It returns "" elsewhere.
func (r Run) withDisturbed(c experiment.Comparison) string {
	disturbed := slices.ContainsFunc(r.Result.Windows, func(w experiment.Window) bool {
		return w.Disturbed != "" && w.Load == c.Load && (w.Condition == c.Condition || w.Condition == c.Baseline)
	})
	if !disturbed || c.Condition == c.Baseline || c.Unlike != "" {
		return ""
	}
	other := r.Result.WithDisturbed().Compare(c.Answer).AtLevel(c.Level)
	outside := c.Ratio.Rounds > 0 && (other.Ratio.Estimate < c.Ratio.Low || other.Ratio.Estimate > c.Ratio.High)
	if other.Ratio.Rounds == 0 || other.Verdict() == c.Verdict() && !outside {
		return ""
	}
	return fmt.Sprintf(" With the first window of each round, disturbed or not, it is %s: %s.", joined(change(other.Ratio.Estimate), changes(other.Ratio)), says(other))
}

// confident labels an interval as one of 95% confidence. It returns "" for "".
func confident(before, interval, after string) string {
	if interval == "" {
		return ""
	}
	return before + "95% interval " + interval + after
}

// unclear returns why a comparison does not say whether the conditions differ.
func unclear(c experiment.Comparison) string {
	switch {
	case c.Value.Rounds == 0:
		return noValue(c.Value, c.Condition)
	case c.Base.Rounds == 0:
		return noValue(c.Base, c.Baseline)
	case c.Unlike != "":
		return plain(c.Unlike)
	case c.P <= experiment.Significance:
		return fmt.Sprintf("p is %s, and among all comparisons of this report a difference counts up to %s", probability(c.P), probability(c.Level))
	case c.Ratio.Rounds > 0 && c.Ratio.Bounded():
		return fmt.Sprintf("the interval of the ratio, %s to %s, contains 1 (no change)", number(c.Ratio.Low), number(c.Ratio.High))
	case c.Ratio.Rounds > 0:
		return few(c.Ratio.Rounds)
	case !c.Value.Bounded() || !c.Base.Bounded():
		return few(min(c.Value.Rounds, c.Base.Rounds))
	}
	return fmt.Sprintf("%s and %s may differ by chance (p is %s)", c.Figure.Format(c.Value.Estimate), c.Figure.Format(c.Base.Estimate), probability(c.P))
}

// more says how many rounds would be enough, in another part of a sentence.
func more(c experiment.Comparison) string {
	switch {
	case c.Unlike != "" || c.Needed == 0 || c.P <= experiment.Significance:
		return ""
	case c.Needed > experiment.MaxRounds:
		return fmt.Sprintf("; this machine cannot show whether it is more than %s: the rounds differ too much", percent(c.Margin-1))
	}
	return fmt.Sprintf("; about %s would show whether it is more than %s", quantity.Count(max(1, c.Needed-c.Ratio.Rounds), "more round"), percent(c.Margin-1))
}

// noValue returns why a condition has no value.
func noValue(v experiment.Value, condition string) string {
	if v.Missing != "" {
		return v.Missing + " " + with(condition)
	}
	return "no undisturbed window has a value " + with(condition)
}

func few(rounds int) string {
	return fmt.Sprintf("only %s, at least %d are needed", quantity.Count(rounds, "undisturbed round"), experiment.MinRounds)
}

// multiple is the ratio from which a change is described as a multiple.
const multiple = 2

// change describes a ratio to the baseline: "43% lower", "4.1 times as high".
func change(ratio float64) string {
	switch {
	case ratio == 1:
		return "no change"
	case ratio < 1:
		return reduction(ratio) + " lower"
	case ratio < multiple:
		return percent(ratio-1) + " higher"
	}
	return times(ratio) + " times as high"
}

// changes describes the interval of a ratio in the manner of its estimate. It returns "" if there is
// none, or if it contains nothing else.
func changes(ratio experiment.Value) string {
	low, high := ratio.Low, ratio.High
	switch {
	case !ratio.Bounded() || ratio.Rounds == 0 || low == high:
		return ""
	case ratio.Estimate < 1 && high <= 1:
		return reduction(high) + " to " + reduction(low)
	case ratio.Estimate >= multiple && low >= 1:
		return times(low) + " to " + times(high)
	case ratio.Estimate > 1 && low >= 1:
		return percent(low-1) + " to " + percent(high-1)
	}
	return change(low) + " to " + change(high)
}

// percent formats a share in whole percent, or with two significant digits below 10%.
func percent(share float64) string {
	switch {
	case share == 0:
		return "0%"
	case share < 0.0001:
		return "less than 0.01%"
	case share < 0.0995:
		return strconv.FormatFloat(100*share, 'f', 1-int(math.Floor(math.Log10(100*share))), 64) + "%"
	}
	return strconv.FormatFloat(100*share, 'f', 0, 64) + "%"
}

// reduction formats how much lower a ratio is, with as many digits as distinguish it from 100%.
func reduction(ratio float64) string {
	if ratio < 0.01 {
		return quantity.Share(1 - ratio).String()
	}
	return percent(1 - ratio)
}

func times(ratio float64) string {
	if ratio < 10 {
		return strconv.FormatFloat(ratio, 'f', 1, 64)
	}
	return number(ratio)
}

// number formats a ratio with three significant digits.
func number(ratio float64) string {
	if ratio < 1000 || ratio >= 1e6 {
		return strconv.FormatFloat(ratio, 'g', 3, 64)
	}
	return strconv.FormatFloat(ratio, 'f', 0, 64)
}

// amount formats a value and its interval: "105 ms, 95% interval 104 to 107 ms".
func amount(f experiment.Figure, v experiment.Value) string {
	return f.Format(v.Estimate) + confident(", ", interval(f, v), "")
}

// interval formats the interval of a value: "104 to 107 ms". It returns "" without one.
func interval(f experiment.Figure, v experiment.Value) string {
	if v.Rounds == 0 || !v.Bounded() {
		return ""
	}
	low := strings.TrimSuffix(f.Format(v.Low), string(experiment.Figures()[f].Unit))
	return strings.TrimSpace(low) + " to " + f.Format(v.High)
}

// label returns the name of a figure for people.
func label(f experiment.Figure) string {
	if d, ok := experiment.Figures()[f]; ok {
		return d.Label
	}
	return plain(string(f))
}

// be returns the verb for a figure's label.
func be(f experiment.Figure) string {
	switch f {
	case experiment.Calls, experiment.Full, experiment.Throttled, experiment.Foreign:
		return "are"
	}
	return "is"
}

// with returns a condition with its preposition.
func with(condition string) string {
	condition = plain(condition)
	for _, preposition := range []string{"with ", "without ", "under ", "on ", "in ", "at "} {
		if strings.HasPrefix(condition, preposition) {
			return condition
		}
	}
	return "with " + condition
}

// load returns what follows a figure's name: a load, or "" if there is only one.
func (r Run) load(name string) string {
	if len(r.Result.Config.Loads) < 2 {
		return ""
	}
	return " (load: " + plain(name) + ")"
}

func direction(v experiment.Verdict) string {
	if v == experiment.Higher {
		return "higher"
	}
	return "lower"
}

// sentence begins a text with a capital, unless that would change a name such as p99.
func sentence(text string) string {
	runes := []rune(text)
	if len(runes) > 1 && unicode.IsLower(runes[1]) {
		runes[0] = unicode.ToUpper(runes[0])
	}
	return string(runes)
}

// The range of values other than 0. No figure of a machine is outside, and all ratios are finite
// numbers.
const minValue, maxValue = 1e-18, 1e18

// plausible reports whether a value can be that of a figure. NaN cannot.
func plausible(value float64) bool {
	return value == 0 || value >= minValue && value <= maxValue
}
