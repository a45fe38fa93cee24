package simulation

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/core/interference/lindley"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/report"
)

// Text prints a row for each combination, and a verdict.
func (r *Report) Text(w io.Writer) error {
	b := bufio.NewWriter(w)
	report.Line(b, "simulated", "%s", r.Asked)
	r.printRecorded(b)
	report.Table(b, r.rows())
	if len(r.Recorded) > 1 {
		fmt.Fprintln(b)
		report.Table(b, r.groupRows())
	}
	fmt.Fprintf(b, "\n%s\n", verdict(r.Outcomes))
	return report.Flush(b, "print the result")
}

func (r *Report) printRecorded(w io.Writer) {
	for _, k := range r.Recorded {
		report.Line(w, "recorded", "%s: %d periods of %v, mean %s CPUs, sd %s, max %s", k.Group, len(k.CPUs), k.Period,
			quantity.CPUs(k.Mean).Fixed(), quantity.CPUs(k.standardDeviation()).Fixed(), quantity.CPUs(slices.Max(k.CPUs)).Fixed())
		if r.Order == Blocks {
			report.Line(w, "pieces", "of %.3g × %v on average, from random places", k.BlockLength, k.Period)
		}
	}
	switch r.Order {
	case Replay:
		report.Line(w, "order", "as recorded, each container from a place of its own")
	case Independent:
		report.Line(w, "order", "none: each period is drawn by itself")
	}
	fmt.Fprintln(w)
}

func (r *Report) rows() [][]string {
	rows := [][]string{{"quota", "mean", "cgroups", "burst", "E[WCET]", "P(WCET = 1)", "throttled", "backlog"}}
	for _, o := range r.Outcomes {
		g := o.average()
		rows = append(rows, []string{quantity.CPUs(o.Quota).Fixed(), quantity.Share(o.Mean).String(), fmt.Sprint(o.Cgroups), o.Burst.String(),
			withError(o.ExpectedWCET, 1, ""), withError(o.ProbabilityWCET1, 100, "%"),
			withError(g.ThrottleRatio, 100, "%"), withError(g.Backlog, 100, "%")})
	}
	if len(r.Recorded) == 0 { // quotas are parts of the machine
		for i := range rows {
			rows[i] = rows[i][1:]
		}
	}
	return rows
}

func (r *Report) groupRows() [][]string {
	rows := [][]string{{"quota", "mean", "cgroups", "burst", "throttled", "backlog", "of"}}
	for _, o := range r.Outcomes {
		for i, k := range r.Recorded {
			g := o.Kinds[i]
			rows = append(rows, []string{quantity.CPUs(g.Quota).Fixed(), quantity.Share(g.Demand.Mean()).String(), fmt.Sprint(g.Count), o.Burst.String(),
				withError(o.Groups[i].ThrottleRatio, 100, "%"), withError(o.Groups[i].Backlog, 100, "%"), k.String()})
		}
	}
	return rows
}

// withError formats a figure to the second digit of its standard error. Without a standard error,
// it was the same in all replicas.
func withError(e interference.Estimate, unit float64, suffix string) string {
	if e.StandardError == 0 {
		return fmt.Sprintf("%.4g%s", unit*e.Value, suffix)
	}
	places := min(max(1-int(math.Floor(math.Log10(unit*e.StandardError))), 0), 9)
	return fmt.Sprintf("%.*f%s ±%.*f", places, unit*e.Value, suffix, places, unit*e.StandardError)
}

// harmless is the P(WCET = 1) from which neighbours hardly notice burst. It is a convention.
const harmless = 0.999

// verdict says in a few sentences what was found, for the operator of the machine.
func verdict(outcomes []Outcome) string {
	var text []string
	for len(outcomes) > 0 {
		n := slices.IndexFunc(outcomes, func(o Outcome) bool { return o.Mean != outcomes[0].Mean || o.Cgroups != outcomes[0].Cgroups })
		if n < 0 {
			n = len(outcomes)
		}
		text = append(text, compare(outcomes[:n]))
		outcomes = outcomes[n:]
	}
	return strings.Join(text, "\n")
}

// compare is about several bursts of the same containers. Which is best for them is a question of
// all delay, by throttling and for lack of CPUs: that is the backlog, which more burst never
// increases. P(WCET = 1) alone does not tell, because it leaves throttling out.
func compare(bursts []Outcome) string {
	if len(bursts) == 1 {
		return bursts[0].verdict()
	}
	best := slices.MinFunc(bursts, func(a, b Outcome) int { return cmp.Compare(a.average().Backlog.Value, b.average().Backlog.Value) })
	text := fmt.Sprintf("%s: least delay with burst %v: throttled in %s of the periods; %s.",
		best.containers(), best.Burst, quantity.Share(best.average().ThrottleRatio.Value), best.lateness())
	if best.Cgroups == 1 {
		return text
	}
	var safe []string
	for _, o := range bursts {
		if o.atLeast() >= interference.Safe {
			safe = append(safe, o.Burst.String())
		}
	}
	if len(safe) == 0 {
		return text + fmt.Sprintf(" Safe for the neighbours (P(WCET = 1) surely at least %s): none; take fewer containers or more CPUs.", quantity.Share(interference.Safe))
	}
	return text + fmt.Sprintf(" Safe for the neighbours: burst %s.", strings.Join(safe, ", "))
}

// containers says how many there are and how busy.
func (o *Outcome) containers() string {
	their := "their limits"
	if o.Cgroups == 1 {
		their = "its limit"
	}
	return fmt.Sprintf("%s at %s of %s", quantity.Count(o.Cgroups, "container"), quantity.Share(o.Mean), their)
}

func (o *Outcome) verdict() string {
	judgement := "take fewer containers, or a smaller burst, before you turn it on"
	switch p := o.atLeast(); {
	case p >= interference.Safe && o.Cgroups == 1:
		judgement = "it has no neighbours here; --cgroups says how many"
	case p >= harmless:
		judgement = "next to no harm to the neighbours"
	case p >= interference.Safe:
		judgement = "little harm to the neighbours"
	case o.ProbabilityWCET1.Value >= interference.Safe:
		judgement = "too few periods to judge; take more --periods"
	case o.Burst == 0 || o.Cgroups == 1:
		judgement = "the machine is too small for these limits; take more CPUs, or fewer containers"
	}
	return fmt.Sprintf("%s, with burst %v: throttled in %s of the periods; %s: %s.",
		o.containers(), o.Burst, quantity.Share(o.average().ThrottleRatio.Value), o.lateness(), judgement)
}

// atLeast is a lower bound of P(WCET = 1): two standard errors below it, or by the rule of three
// without any miss.
func (o *Outcome) atLeast() float64 {
	if o.Misses == 0 {
		return 1 - 3/float64(o.Periods)
	}
	return o.ProbabilityWCET1.Value - 2*o.ProbabilityWCET1.StandardError
}

func (o *Outcome) lateness() string {
	if o.Misses == 0 {
		return fmt.Sprintf("none of %d is late for lack of CPUs", o.Periods)
	}
	once := float64(o.Periods) / float64(o.Misses)
	digits := math.Pow(10, math.Floor(math.Log10(once))-1)
	once = math.Round(once/digits) * digits
	return fmt.Sprintf("one in %.10g is late for lack of CPUs", once)
}

// Throttling is how often one container is throttled with a burst, with bounds. It is encoded as
// JSON.
type Throttling struct {
	Burst report.Burst `json:"burst"` // instead of that in multiples of the quota
	lindley.Throttling
	Demand  string `json:"demand"`
	Figures string `json:"figures"` // how they were computed
	Bounds  string `json:"bounds"`
}

// PrintThrottling prints a row for each burst, and a sentence on the smallest and the largest.
func PrintThrottling(w io.Writer, answers []Throttling) error {
	b := bufio.NewWriter(w)
	report.Line(b, "demand", "%s", answers[0].Demand)
	report.Line(b, "figures", "%s", answers[0].Figures)
	report.Line(b, "bounds", "%s", answers[0].Bounds)
	fmt.Fprintln(b)
	rows := [][]string{{"burst", "throttled", "at least", "at most", "width"}}
	for _, a := range answers {
		row := []string{a.Burst.String()}
		for _, p := range []float64{a.Probability, a.Lower, a.Upper} {
			row = append(row, quantity.Share(p).Digits(7))
		}
		rows = append(rows, append(row, fmt.Sprintf("%.1e", a.Upper-a.Lower)))
	}
	report.Table(b, rows)
	byBurst := func(a, b Throttling) int { return cmp.Compare(a.Burst, b.Burst) }
	least, most := slices.MinFunc(answers, byBurst), slices.MaxFunc(answers, byBurst)
	fmt.Fprintf(b, "\nWith burst %v the container is throttled in %s of the periods", least.Burst, quantity.Share(least.Probability))
	if most.Burst > least.Burst {
		fmt.Fprintf(b, ", with burst %v in %s", most.Burst, quantity.Share(most.Probability))
	}
	fmt.Fprintln(b, ".")
	return report.Flush(b, "print the result")
}
