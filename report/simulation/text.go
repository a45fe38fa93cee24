package simulation

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/core/interference/lindley"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/report"
)

// Text prints a row for each combination, and a verdict.
func (r *Report) Text(w io.Writer) error {
	b := bufio.NewWriter(w)
	if len(r.Recorded) > 0 {
		r.printRecorded(b)
	}
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
	if r.Machine > 0 {
		report.Line(w, "machine", "%s CPUs", quantity.CPUs(r.Machine).Fixed())
	} else {
		report.Line(w, "machine", "as many CPUs as all quotas together")
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

// The neighbours are hardly harmed if P(WCET = 1) is at least harmless, and little if it is at
// least bearable. Both are conventions.
const (
	harmless = 0.999
	bearable = 0.99
)

// verdict says in a few sentences what was found, for the operator of the machine.
func verdict(outcomes []Outcome) string {
	if len(outcomes) == 1 {
		return outcomes[0].verdict()
	}
	var safe []Outcome
	worst := outcomes[0]
	for _, o := range outcomes {
		if o.atLeast() >= harmless {
			safe = append(safe, o)
		}
		if o.ProbabilityWCET1.Value < worst.ProbabilityWCET1.Value {
			worst = o
		}
	}
	text := safeVerdict(safe, len(outcomes))
	if worst.Misses > 0 {
		text += fmt.Sprintf("\nThe worst is %s: %s.", &worst.Combination, worst.lateness())
	}
	return text
}

// safeVerdict is about the harmless ones of all combinations.
func safeVerdict(safe []Outcome, all int) string {
	if len(safe) == 0 {
		return fmt.Sprintf("In none of %d combinations are %s of the periods surely done in time: take fewer containers, or a smaller burst, before you turn it on.",
			all, quantity.Share(harmless))
	}
	many := fmt.Sprintf("%d of", len(safe))
	if len(safe) == all {
		many = "all"
	}
	least := slices.MinFunc(safe, func(a, b Outcome) int {
		return cmp.Compare(a.average().ThrottleRatio.Value, b.average().ThrottleRatio.Value)
	})
	return fmt.Sprintf("In %s %d combinations at least %s of the periods are surely done in time, so that containers hardly harm each other.\n"+
		"Least throttled of these is %s: in %s of the periods.",
		many, all, quantity.Share(harmless), &least.Combination, quantity.Share(least.average().ThrottleRatio.Value))
}

func (o *Outcome) verdict() string {
	judgement := "take fewer containers, or a smaller burst, before you turn it on"
	switch p := o.atLeast(); {
	case p >= harmless:
		judgement = "next to no harm to the neighbours"
	case p >= bearable:
		judgement = "little harm to the neighbours"
	case o.ProbabilityWCET1.Value >= bearable:
		judgement = "too few periods to judge; take more --periods"
	case o.Burst == 0:
		judgement = "the machine is too small for these quotas, without any burst; take fewer containers"
	}
	return fmt.Sprintf("With burst %v, %d containers that want %s of their quotas on average: %s, and a container is throttled in %s of the periods: %s.",
		o.Burst, o.Cgroups, quantity.Share(o.Mean), o.lateness(), quantity.Share(o.average().ThrottleRatio.Value), judgement)
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
		return fmt.Sprintf("in none of %d periods was more wanted than there is", o.Periods)
	}
	once := float64(o.Periods) / float64(o.Misses)
	digits := math.Pow(10, math.Floor(math.Log10(once))-1)
	once = math.Round(once/digits) * digits
	return fmt.Sprintf("one period in %.10g is not done in time", once)
}

// Throttling is how often one container is throttled with a burst, with bounds. It is encoded as
// JSON.
type Throttling struct {
	Burst report.Burst `json:"burst"` // instead of that in multiples of the quota
	lindley.Throttling
	Demand   string   `json:"demand"`
	Figures  string   `json:"figures"` // how they were computed
	Bounds   string   `json:"bounds"`
	Warnings []string `json:"warnings,omitempty"` // about the recording
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
