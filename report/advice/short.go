package advice

import (
	"fmt"
	"time"

	"pinfold.dev/pinfold/core/advice"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/report"
)

// short returns what most users need, as names and values: what was recorded, the present and the
// advised limits with what they do, and what to do next.
func (c *Container) short(goal advice.Goal) [][2]string {
	r, with, without := &c.Recorded, &c.LimitWithBurst, &c.LimitWithoutBurst
	lines := [][2]string{{"recorded", c.recorded()}}
	if r.LimitCPUs > 0 || r.ThrottleRatioOfTimer != nil && *r.ThrottleRatioOfTimer > 0 {
		lines = append(lines, [2]string{"now", c.present() + late(r.Delay)})
	}
	d, ok := c.Decide(goal)
	if !ok {
		lines = append(lines, [2]string{"advice", report.Printable(with.Reason)})
	}
	if d.Repairs {
		lines = append(lines, [2]string{"repair", repair(&c.Burst)})
	}
	switch {
	case c.Saves():
		lines = append(lines, [2]string{"saving", outcome(with) + now(r.Delay)})
	case with.Enough && d.Keeps:
		lines = append(lines, [2]string{"instead", outcome(with)})
	case with.Enough && !d.Repairs:
		lines = append(lines, [2]string{limitName, outcome(with)})
	}
	if without.Enough && with.BurstPercent > 0 {
		lines = append(lines, [2]string{noBurstName, outcome(without)})
	}
	for _, row := range c.rows(goal) {
		if row.Name == nodeName || row.Name == scaleOutName && row.Change {
			lines = append(lines, [2]string{row.Name, row.sentence()})
		}
	}
	for _, w := range c.warnings() {
		lines = append(lines, [2]string{"note", w})
	}
	next := "-v shows all advice with its reasons"
	if _, _, _, named := podNames(c.Name); named && ok && !d.Keeps {
		next = "-o patch prints what to set for kubectl; " + next
	}
	return append(lines, [2]string{"next", next})
}

// outcome describes a limit: its confidence interval, and what it does to periods and to work.
func outcome(l *advice.Limit) string {
	return fmt.Sprintf("%s (%s to %s with %s confidence): throttles %s, and %s to %s of another such recording%s",
		setting(l.LimitCPUs, l.BurstPercent), quantity.CPUs(l.LowCPUs).Amount(), quantity.CPUs(l.HighCPUs).Amount(), quantity.Share(advice.Confidence),
		quantity.Share(l.ThrottleRatio), quantity.Share(l.LowThrottleRatio).Digits(2), quantity.Share(l.HighThrottleRatio).Digits(2), late(&l.Delay))
}

// repair describes the burst at the present limit that reaches the goal.
func repair(b *advice.Burst) string {
	return fmt.Sprintf("burst of %s at the present limit (%s to %s with %s confidence): throttles %s%s", percent(b.BurstPercent),
		percent(b.LowPercent), percent(b.HighPercent), quantity.Share(advice.Confidence), quantity.Share(b.ThrottleRatioWith), late(&b.Delay))
}

// now says how late work is at present, after what another limit does to it.
func now(d *advice.Delay) string {
	switch {
	case d == nil:
		return ""
	case d.Longest.Round(time.Millisecond) == 0:
		return "; now none is late"
	}
	return "; now by " + delay(d)
}

// late says how late work is. The result is "" if none is late.
func late(d *advice.Delay) string {
	if d == nil || d.Longest.Round(time.Millisecond) == 0 {
		return ""
	}
	return "; work in those periods is late by " + delay(d)
}

func delay(d *advice.Delay) string {
	text := rounded(d.Mean.Round(time.Millisecond)) + " on average"
	if d.P99 != nil {
		text += fmt.Sprintf(", %s at p99", rounded(d.P99.Round(time.Millisecond)))
	}
	return text + fmt.Sprintf(", %s at most", rounded(d.Longest.Round(time.Millisecond)))
}

// delayRow says how late work is in throttled periods.
func (c *Container) delayRow() row {
	l := &c.LimitWithBurst
	value := "none"
	if l.Delay.Longest.Duration > 0 {
		value = delay(&l.Delay)
	}
	reason := fmt.Sprintf("how late work is at the end of a throttled period, with %s", setting(l.LimitCPUs, l.BurstPercent))
	if without := &c.LimitWithoutBurst; l.BurstPercent > 0 && without.Delay.Longest.Duration > 0 {
		reason += fmt.Sprintf("; with %s %s", setting(without.LimitCPUs, without.BurstPercent), delay(&without.Delay))
	}
	if d := c.Recorded.Delay; d != nil && d.Longest.Duration > 0 {
		reason += fmt.Sprintf("; with the present limit %s", delay(d))
	}
	return newRow("delay", advice.Finding{Enough: l.Enough, Reason: reason}, value)
}
