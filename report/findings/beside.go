package findings

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"pinfold.dev/pinfold/core/experiment"
)

// beside is an answer beside that of another run.
type beside struct{ What, Other, This, Says string }

// compareOthers compares the answers with those of other runs.
func (r Run) compareOthers() (all []beside) {
	for _, a := range r.Result.Config.Answers {
		for i := range r.Others {
			this, other := r.compare(a), r.Others[i].Compare(a).AtLevel(r.level)
			all = append(all, beside{
				What: r.verdict(this).What, Other: r.verdict(other).Effect + "; " + r.where(r.Others[i]), This: r.verdict(this).Effect,
				Says: r.agree(this, other, r.Others[i]),
			})
		}
	}
	return all
}

// where says when another run was, and what else was different.
func (r Run) where(other experiment.Result) string {
	e, this := other.Environment, r.Result.Environment
	text := e.Started.UTC().Format("2006-01-02")
	if e.Place != this.Place {
		text += ", " + string(e.Place)
	}
	if e.Kernel != this.Kernel {
		text += ", Linux " + e.Kernel
	}
	if e.Cgroup != this.Cgroup {
		text += fmt.Sprintf(", control groups of version %d", e.Cgroup)
	}
	if e.Model != this.Model {
		text += ", " + e.Model
	}
	replaced := func(text string) bool { return strings.HasPrefix(text, experiment.BuiltIn) }
	for program, version := range e.Programs {
		if replaced(version) && !replaced(this.Programs[program]) {
			text += ", with built-in programs"
			break
		}
	}
	return plain(text)
}

// agree says whether two runs agree on an answer. They do if the interval of the ratio of their
// changes contains 1. Where there is no ratio, that of the difference of the values must contain 0.
func (r Run) agree(this, other experiment.Comparison, result experiment.Result) string {
	this, other = this.AtLevel(experiment.Significance), other.AtLevel(experiment.Significance)
	ratios := this.Ratio.Rounds > 0 && other.Ratio.Rounds > 0
	here, there, alike := r.Result.Usage(result, this.Answer)
	switch {
	case !r.Result.SameWork(result, this.Answer):
		return incomparable + ": the experiment was another"
	case !alike:
		return fmt.Sprintf("%s: the service used %s %s there, and %s here", incomparable,
			experiment.Used.Format(there), with(this.Baseline), experiment.Used.Format(here))
	case cmp.Or(this.Value.Missing, this.Base.Missing, other.Value.Missing, other.Base.Missing) != "":
		return inconclusive + ": " + fewRequests
	case this.Unlike != "" || other.Unlike != "" || this.Value.Rounds == 0 || other.Value.Rounds == 0:
		return inconclusive
	case ratios && min(this.Ratio.Rounds, other.Ratio.Rounds) < experiment.MinRounds, min(this.Value.Rounds, other.Value.Rounds) < experiment.MinRounds:
		return inconclusive + ": too few rounds"
	case this.Verdict() == experiment.Alike && other.Verdict() == experiment.Alike:
		return "agree: both " + says(this)
	case !ratios:
		if d := this.Value.Minus(other.Value); d.Low > 0 || d.High < 0 {
			return fmt.Sprintf("differ: by %s to %s", points(this.Figure, d.Low), points(this.Figure, d.High))
		}
		return "agree"
	}
	d := this.Ratio.Over(other.Ratio)
	switch text := changes(d); {
	case !(d.Low > 0 && d.High < math.Inf(1)):
		return inconclusive
	case d.Low > 1 || d.High < 1:
		return "differ: " + joined(change(d.Estimate), text)
	case math.Log(d.High/d.Low) > max(math.Abs(math.Log(other.Ratio.Estimate)), margin): // it would also contain no effect, or twice that
		return inconclusive + ": " + text
	default:
		return "agree: " + text
	}
}

// agreement says how many answers of other runs agree. Without other runs it returns "".
func agreement(all []findings) string {
	n := map[string]int{}
	for _, f := range all {
		for _, b := range f.Beside {
			verdict, _, _ := strings.Cut(b.Says, ":")
			n[verdict]++
		}
	}
	text := counted(n, "answer", "of other runs beside these")
	if text != "" {
		text += " Each interval is one of 95%, so one in twenty is expected to differ by chance."
	}
	return text
}
