package advice

import (
	"fmt"
	"slices"
	"strings"

	"pinfold.dev/pinfold/core/advice"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/report"
)

// row is one recommendation.
type row struct {
	Name     string
	Value    string // "" without enough data
	Interval string // of confidence; "" if there is none
	Reason   string
	Change   bool // the recommendation differs from the present setting
}

// Names of rows that the short text has, too.
const (
	limitName    = "limit" // with the burst of the goal, if it has one
	noBurstName  = "no burst"
	nodeName     = "node"
	scaleOutName = "scale out"
)

// rows returns all recommendations in the order of the report.
func (c *Container) rows(goal advice.Goal) []row {
	present := c.Recorded.LimitCPUs
	var all []row
	if present > 0 { // what keeps the limit comes first
		all = append(all, burstRow(&c.Burst))
	}
	name := limitName
	if c.LimitWithBurst.BurstPercent > 0 {
		all, name = append(all, limitRow(limitName, &c.LimitWithBurst, present)), noBurstName
	}
	all = append(all, limitRow(name, &c.LimitWithoutBurst, present))
	if c.LimitWithBurst.Enough {
		all = append(all, c.delayRow())
	}
	if present == 0 {
		all = append(all, burstRow(&c.Burst))
	}
	all = append(all,
		periodRow(&c.Period, c.Recorded.Period),
		bindingRow(&c.Binding),
		newRow("threads", c.Parallelism.Finding, fmt.Sprintf("%d at a time", c.Parallelism.Threads)),
		scaleOutRow(&c.ScaleOut))
	if c.Node != nil {
		all = append(all, nodeRow(c.Node))
	}
	if !slices.ContainsFunc(all, func(r row) bool { return r.Value != "" || r.Reason != all[0].Reason }) {
		all = []row{{Name: "advice", Reason: all[0].Reason}} // all lack the same data
	}
	if d, ok := c.Decide(goal); ok {
		all = append(all, c.patchRow(goal, d))
	}
	return all
}

func newRow(name string, f advice.Finding, value string) row {
	r := row{Name: name, Reason: report.Printable(f.Reason)}
	if f.Enough {
		r.Value = value
	}
	return r
}

// sentence returns the whole row as text. Some reasons contain the confidence interval.
func (r *row) sentence() string {
	switch {
	case r.Value == "":
		return r.Reason
	case r.Interval == "" || strings.Contains(r.Reason, "confidence"):
		return r.Value + ": " + r.Reason
	}
	return fmt.Sprintf("%s (%s with 95%% confidence): %s", r.Value, r.Interval, r.Reason)
}

// Why returns the reason for the page, which says "not enough data" in another column.
func (r row) Why() string {
	if r.Value == "" {
		return strings.TrimPrefix(r.Reason, "not enough data: ")
	}
	return r.Reason
}

// between sets the confidence interval.
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
		value += fmt.Sprintf(" and a burst of %s", percent(l.BurstPercent))
	}
	return newRow(name, l.Finding, value).between("%s to %s", quantity.CPUs(l.LowCPUs).Amount(), quantity.CPUs(l.HighCPUs).Amount()).
		when(present > 0 && (present < l.LowCPUs || present > l.HighCPUs))
}

func burstRow(b *advice.Burst) row {
	value := percent(b.BurstPercent)
	switch {
	case !b.ReachesGoal && b.BurstPercent == 0:
		value = "of no use"
	case !b.ReachesGoal:
		value += ", not enough"
	case b.BurstPercent == 0:
		value = "not needed"
	}
	return newRow("burst", b.Finding, value).between("%s to %s", percent(b.LowPercent), percent(b.HighPercent)).
		when(b.BurstPercent > 0 || !b.ReachesGoal)
}

func periodRow(p *advice.Period, present quantity.Seconds) row {
	value := "none would do"
	if p.Period.Duration > 0 {
		value = rounded(p.Period.Duration)
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
	r := newRow(scaleOutName, s.Finding, fmt.Sprintf("%s, at %s of the limit", value, quantity.Share(s.Utilisation))).when(s.Needed)
	if s.LowUtilisation == s.HighUtilisation { // without enough data there is no interval
		return r
	}
	return r.between("%s to %s", quantity.Share(s.LowUtilisation), quantity.Share(s.HighUtilisation))
}

func nodeRow(n *advice.Node) row {
	least := ""
	if n.Most {
		least = " or more"
	}
	r := newRow(nodeName, n.Finding, fmt.Sprintf("%s%s on %s", quantity.Count(n.Fits.Containers, "container"), least, quantity.CPUs(n.CPUs))).when(n.LessDensity)
	if n.Low == n.High {
		return r
	}
	return r.between("%d to %d", n.Low, n.High)
}

// decisionRow is what to set.
func (c *Container) decisionRow(d advice.Decision) row {
	if !d.Repairs && !d.Keeps {
		return limitRow("", &c.LimitWithBurst, c.Recorded.LimitCPUs)
	}
	r := burstRow(&c.Burst)
	r.Value = setting(d.LimitCPUs, d.BurstPercent)
	return r
}

// facts describes the recording, as names and values.
func (c *Container) facts() [][2]string {
	facts := [][2]string{{"recorded", c.recorded()}, {"wanted", wanted(&c.Recorded)}, {"limit now", c.present()}}
	for _, w := range c.warnings() {
		facts = append(facts, [2]string{"note", w})
	}
	return facts
}

// recorded describes the length of the recording.
func (c *Container) recorded() string {
	r := &c.Recorded
	periods := "no whole period of " + rounded(r.Period.Duration)
	if r.Periods > 0 {
		periods = fmt.Sprintf("%s of %s", quantity.Count(r.Periods, "period"), rounded(r.Period.Duration))
	}
	return fmt.Sprintf("%s, %s, in %s", rounded(r.Time.Duration), periods, report.Printable(c.File))
}

// present describes the recorded limit.
func (c *Container) present() string {
	r := &c.Recorded
	limit, under := fmt.Sprintf("%s, burst %s", quantity.CPUs(r.LimitCPUs), percent(r.BurstPercent)), ""
	switch {
	case r.LimitCPUs == 0 && !r.Unknown.Has(trace.Limits):
		return "no limit"
	case r.LimitCPUs == 0:
		limit = "an unknown limit"
	case r.Unknown.Has(trace.Burst):
		limit = fmt.Sprintf("%s, burst unknown", quantity.CPUs(r.LimitCPUs))
	}
	if r.LimitChanges > 0 {
		under = ", under all the limits that there were"
	}
	return fmt.Sprintf("%s; %s%s", limit, throttled(r), under)
}

// throttled is the throttled share of all periods and, if it differs, the one that dashboards show.
func throttled(r *advice.Recorded) string {
	if r.ThrottleRatioOfTimer == nil {
		return "throttling unknown"
	}
	ofTimer := quantity.Share(*r.ThrottleRatioOfTimer).String()
	if r.ThrottleRatio == nil {
		return fmt.Sprintf("throttled in %s of the periods in which the kernel's timer ran", ofTimer)
	}
	all := quantity.Share(*r.ThrottleRatio).String()
	if all == ofTimer {
		return fmt.Sprintf("throttled in %s of the periods", all)
	}
	return fmt.Sprintf("throttled in %s of all periods, %s of those in which the kernel's timer ran", all, ofTimer)
}

// wanted describes the demand, compared with the limit if there is one.
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
	if r.P99CPUs != nil && r.PeakCPUs != nil {
		text += fmt.Sprintf(", p99 %s%s, peak %s%s", quantity.CPUs(*r.P99CPUs).Amount(), of(*r.P99CPUs, ""), quantity.CPUs(*r.PeakCPUs).Amount(), of(*r.PeakCPUs, ""))
	}
	return text
}

// warnings returns the warnings about the recording and the node.
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

// patchRow says which of the recommendations the patch contains, and why.
func (c *Container) patchRow(goal advice.Goal, d advice.Decision) row {
	if _, _, _, ok := podNames(c.Name); !ok {
		return row{Name: "patch", Value: "none", Reason: "kubectl can patch pods only, and the recording has no NAMESPACE/POD/CONTAINER for this group; record with 'pinfold sample --pod'"}
	}
	contains := func(name string, why ...string) row {
		return row{Name: "patch", Value: fmt.Sprintf("contains '%s'", name), Reason: strings.Join(why, "; ")}
	}
	l := &c.LimitWithBurst
	if d.Keeps {
		return row{Name: "patch", Value: "none", Reason: fmt.Sprintf("the present limit of %s throttles no more periods than wanted", setting(d.LimitCPUs, d.BurstPercent))}
	}
	if d.Repairs {
		why := []string{fmt.Sprintf("the present limit of %s with a burst of %s, which reaches the goal without more CPUs", quantity.CPUs(d.LimitCPUs), percent(d.BurstPercent))}
		if c.Saves() {
			why = append(why, fmt.Sprintf("'limit' saves CPUs, and work is late as 'delay' says: then set %s", setting(l.LimitCPUs, l.BurstPercent)))
		}
		return contains("burst", why...)
	}
	why := []string{fmt.Sprintf("%s, the lowest limit that meets the goal", setting(l.LimitCPUs, l.BurstPercent))}
	if l.HeldOut.JudgedThrottleRatio > goal.ThrottleRatio {
		why = append(why, fmt.Sprintf("the check on held-out data misses the goal: the limit from the first half throttles %s of the second; "+
			"the patch keeps the limit from the whole recording; to be safer, record for longer, or set %s, the upper end of the confidence interval",
			quantity.Share(l.HeldOut.JudgedThrottleRatio), quantity.CPUs(l.HighCPUs)))
	}
	if l.BurstPercent > 0 {
		why = append(why, fmt.Sprintf("'%s' is for nodes without pinfold-agent, where there is none", noBurstName))
	}
	return contains(limitName, why...)
}
