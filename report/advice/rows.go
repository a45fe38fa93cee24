package advice

import (
	"fmt"
	"slices"
	"strings"

	"pinfold.dev/pinfold/core/advice"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/report"
)

// row is one piece of advice.
type row struct {
	Name string
	// Value and Interval, of confidence, are empty where there was not enough data; the interval
	// also where there is none.
	Value, Interval string
	Reason          string
	Change          bool // what is recommended differs from what there is
}

// rows are all pieces of advice, in the order in which they are shown.
func (c *Container) rows(goal advice.Goal) []row {
	present := c.Recorded.LimitCPUs
	all := []row{limitRow("limit", &c.LimitWithoutBurst, present)}
	if c.LimitWithBurst.BurstPercent > 0 {
		all = append(all, limitRow("with burst", &c.LimitWithBurst, present))
	}
	all = append(all,
		burstRow(&c.Burst),
		periodRow(&c.Period, c.Recorded.Period),
		bindingRow(&c.Binding),
		newRow("threads", c.Parallelism.Finding, fmt.Sprintf("%d at a time", c.Parallelism.Threads)),
		scaleOutRow(&c.ScaleOut))
	if c.Node != nil {
		all = append(all, nodeRow(c.Node))
	}
	all = joined(all)
	if c.LimitWithBurst.Enough {
		all = append(all, c.patchRow(goal))
	}
	return all
}

// joined makes one row of all when each lacks the same.
func joined(all []row) []row {
	for _, r := range all {
		if r.Value != "" || r.Reason != all[0].Reason {
			return all
		}
	}
	return []row{{Name: "advice", Reason: all[0].Reason}}
}

func newRow(name string, f advice.Finding, value string) row {
	r := row{Name: name, Reason: report.Printable(f.Reason)}
	if f.Enough {
		r.Value = value
	}
	return r
}

// Why is the reason where it is said elsewhere that there was not enough data.
func (r row) Why() string {
	if r.Value == "" {
		return strings.TrimPrefix(r.Reason, "not enough data: ")
	}
	return r.Reason
}

// between adds the confidence interval.
func (r row) between(format string, args ...any) row {
	if r.Value != "" {
		r.Interval = fmt.Sprintf(format, args...)
	}
	return r
}

// when marks a change.
func (r row) when(change bool) row {
	r.Change = r.Value != "" && change
	return r
}

func limitRow(name string, l *advice.Limit, present float64) row {
	value := quantity.CPUs(l.LimitCPUs).String()
	if l.BurstPercent > 0 {
		value += fmt.Sprintf(" and a burst of %s", percentOf(l.BurstPercent))
	}
	return newRow(name, l.Finding, value).between("%s to %s", quantity.CPUs(l.LowCPUs).Amount(), quantity.CPUs(l.HighCPUs).Amount()).
		when(present > 0 && (present < l.LowCPUs || present > l.HighCPUs))
}

func burstRow(b *advice.Burst) row {
	value := percentOf(b.BurstPercent)
	switch {
	case !b.ReachesGoal && b.BurstPercent == 0:
		value = "of no use"
	case !b.ReachesGoal:
		value += ", not enough"
	case b.BurstPercent == 0:
		value = "not needed"
	}
	return newRow("burst", b.Finding, value).between("%s to %s", percentOf(b.LowPercent), percentOf(b.HighPercent)).
		when(b.BurstPercent > 0 || !b.ReachesGoal)
}

func periodRow(p *advice.Period, present advice.Seconds) row {
	value := "none would do"
	if p.Period.Duration > 0 {
		value = lasting(p.Period.Duration)
	}
	return newRow("period", p.Finding, value).when(p.Period != present)
}

func bindingRow(b *advice.Binding) row {
	value := "does not pay"
	if b.Pays {
		value = "pays"
	}
	return newRow("binding", b.Finding, fmt.Sprintf("%s, on %s", value, quantity.CPUs(float64(b.CPUs))))
}

func scaleOutRow(s *advice.ScaleOut) row {
	value := "not needed"
	if s.Needed {
		value = "needed"
	}
	return newRow("scale out", s.Finding, fmt.Sprintf("%s, at %s of the limit", value, quantity.Share(s.Utilisation))).
		between("%s to %s", quantity.Share(s.LowUtilisation), quantity.Share(s.HighUtilisation)).when(s.Needed)
}

func nodeRow(n *advice.Node) row {
	least := ""
	if n.Most {
		least = " or more"
	}
	r := newRow("node", n.Finding, fmt.Sprintf("%s%s on %s", quantity.Count(n.Fits.Containers, "container"), least, quantity.CPUs(n.CPUs))).when(n.LessDensity)
	if n.Low == n.High {
		return r
	}
	return r.between("%d to %d", n.Low, n.High)
}

// facts are what the advice rests on, as names and values.
func (c *Container) facts() [][2]string {
	r := &c.Recorded
	periods := "no whole period of " + lasting(r.Period.Duration)
	if r.Periods > 0 {
		periods = fmt.Sprintf("%s of %s", quantity.Count(r.Periods, "period"), lasting(r.Period.Duration))
	}
	facts := [][2]string{
		{"recorded", fmt.Sprintf("%s, %s, in %s", lasting(r.Time.Duration), periods, report.Printable(c.File))},
		{"wanted", wanted(r)},
	}
	now, under := "no limit", ""
	if r.LimitChanges > 0 {
		under = ", under all the limits that there were"
	}
	if r.LimitCPUs > 0 {
		now = fmt.Sprintf("%s, burst %s; throttled in %s of the periods%s", quantity.CPUs(r.LimitCPUs), percentOf(r.BurstPercent), quantity.Share(r.ThrottleRatio), under)
	}
	facts = append(facts, [2]string{"limit now", now})
	for _, w := range c.warnings() {
		facts = append(facts, [2]string{"note", w})
	}
	return facts
}

// mostOpen is the largest share of the time in which nobody knows what was wanted that leaves
// the 99th percentile.
const mostOpen = .01

// wanted is the demand, against the limit if there is one.
func wanted(r *advice.Recorded) string {
	of := func(cpus float64, what string) string {
		if r.LimitCPUs <= 0 {
			return ""
		}
		return fmt.Sprintf(" (%.0f%%%s)", 100*cpus/r.LimitCPUs, what)
	}
	least := ""
	if r.OpenShare > 0 {
		least = "at least "
	}
	text := fmt.Sprintf("average %s%s%s", least, quantity.CPUs(r.AverageCPUs), of(r.AverageCPUs, " of the limit"))
	if r.Periods > 0 && r.OpenShare <= mostOpen {
		text += fmt.Sprintf(", p99 %s%s, peak %s%s", quantity.CPUs(r.P99CPUs).Amount(), of(r.P99CPUs, ""), quantity.CPUs(r.PeakCPUs).Amount(), of(r.PeakCPUs, ""))
	}
	return text
}

// warnings are those of the recording, and of the node.
func (c *Container) warnings() []string {
	all := slices.Clone(c.Warnings)
	if c.Node != nil {
		for _, w := range c.Node.Warnings {
			all = append(all, "node: "+w)
		}
	}
	for i := range all {
		all[i] = report.Printable(all[i])
	}
	return all
}
