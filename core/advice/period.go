package advice

import (
	"fmt"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/quantity"
)

// periodStep is the step between the periods that are tried.
const periodStep = 50 * time.Millisecond

// periodAt returns the shortest period that suffices without burst at a limit.
func (sub *subject) periodAt(at limitAt) Period {
	p := Period{AtLimitCPUs: at.cpus}
	if p.Reason = at.obstacle(sub); p.Reason != "" {
		return p
	}
	peak := sub.peak()
	p.PresentStall.Duration = longestStall(sub.period, at.cpus, peak)
	goal := sub.goal.ThrottleRatio
	ratio, longest, n := 1.0, sub.period, 0
	for _, period := range sub.periodsToTry() {
		wanted := sub.wanted
		if period != sub.period {
			d, _, err := sub.series.Wanted(sub.nominal, period)
			if err != nil {
				break
			}
			wanted = phasesOf(&d)
		}
		ratio, longest, n = wanted.throttleRatio(quotaOf(at.cpus, period), 0), period, len(wanted[0])
		if ratio <= goal {
			p.Period.Duration = period
			break
		}
	}
	p.ThrottleRatio = ratio
	p.LongestStall.Duration = longestStall(longest, at.cpus, peak)
	if float64(n)*max(goal, ratio) < minThrottled {
		p.Reason = tooFew(n, longest, goal)
		return p
	}
	p.Enough = true
	p.explain(sub, at, peak, longest)
	return p
}

func (p *Period) explain(sub *subject, at limitAt, peak float64, longest time.Duration) {
	goal, stalls := quantity.Share(sub.goal.ThrottleRatio), ""
	if p.LongestStall.Duration > 0 {
		stalls = fmt.Sprintf("; as many threads as at the peak (%s) may then all wait for %s in a period, now for %s",
			quantity.CPUs(peak), stall(p.LongestStall.Duration), stall(p.PresentStall.Duration))
		if longest == sub.period {
			stalls = fmt.Sprintf("; as many threads as at the peak (%s) may all wait for %s in a period", quantity.CPUs(peak), stall(p.PresentStall.Duration))
		}
	}
	switch {
	case p.Period.Duration == sub.period:
		p.Reason = fmt.Sprintf("at %s the present period of %v suffices without burst: %s of the periods are throttled (wanted: at most %s)%s",
			at.name, sub.period, quantity.Share(p.ThrottleRatio), goal, stalls)
	case p.Period.Duration > 0:
		p.Reason = fmt.Sprintf("at %s a period of %v suffices without burst: %s of the periods are throttled (wanted: at most %s)%s", at.name, p.Period, quantity.Share(p.ThrottleRatio), goal, stalls)
	default:
		p.Reason = fmt.Sprintf("at %s no period up to %v suffices without burst: at %v, %s of the periods are throttled (wanted: at most %s)",
			at.name, longest, longest, quantity.Share(p.ThrottleRatio), goal)
	}
}

// periodsToTry returns the periods to try: the present one, and longer ones that are multiples of
// the sampling interval.
func (sub *subject) periodsToTry() []time.Duration {
	all := []time.Duration{sub.period}
	for p := periodStep; p <= bandwidth.MaxPeriod; p += periodStep {
		if p > sub.period && p%sub.nominal == 0 {
			all = append(all, p)
		}
	}
	return all
}

// longestStall returns how long threads wait in a period that starts with work on cpus CPUs.
func longestStall(period time.Duration, limit, cpus float64) time.Duration {
	if cpus <= limit {
		return 0
	}
	return time.Duration(float64(period) * (1 - limit/cpus))
}

// peak returns the largest demand in CPUs of a sample, or of a period if that is shorter.
func (sub *subject) peak() float64 {
	if d, err := sub.series.Demand(sub.nominal, sub.nominal); err == nil {
		return slices.Max(d.CPUs)
	}
	return slices.Max(sub.demand.CPUs)
}
