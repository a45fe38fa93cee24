package advice

import (
	"fmt"
	"math"
	"time"

	"pinfold.dev/pinfold/core/quantity"
)

// limitFor returns the limit for a burst in multiples of the quota, without its interval.
func (sub *subject) limitFor(burst float64) Limit {
	l := Limit{BurstPercent: 100 * burst}
	if l.Reason = sub.lacking(); l.Reason != "" {
		return l
	}
	l.Enough = true
	goal := sub.goal.ThrottleRatio
	steps := sub.wanted.smallestLimit(sub.period, burst, goal)
	l.LimitCPUs = stepsToCPUs(steps)
	quota := quotaOf(l.LimitCPUs, sub.period)
	l.ThrottleRatio = sub.wanted.throttleRatio(quota, int64(burst*float64(quota)))
	half := len(sub.wanted) / 2
	l.HeldOut = heldOut(sub.wanted[:half], sub.wanted[half:], sub.period, burst, goal)
	return l
}

// heldOut fits a limit to some periods and judges it on others.
func heldOut(fitted, judged amounts, period time.Duration, burst, ratio float64) HeldOut {
	cpus := stepsToCPUs(fitted.smallestLimit(period, burst, ratio))
	quota := quotaOf(cpus, period)
	saved := int64(burst * float64(quota))
	return HeldOut{LimitCPUs: cpus, FittedThrottleRatio: fitted.throttleRatio(quota, saved), JudgedThrottleRatio: judged.throttleRatio(quota, saved)}
}

// nearlyAll is the utilisation of a limit from which on little is left to catch up with. Live, a
// steady load of 2 ms of work each 10 ms was throttled in 60% of the periods at 95% of the
// limit, and in 4% at 90% (Linux 6.18, a busy virtual machine with 2 CPUs, 2026-11).
const nearlyAll = .9

// cautions are sentences on what a throttle ratio does not show.
func (l *Limit) cautions(sub *subject) []string {
	if !l.Enough {
		return nil
	}
	var w []string
	if used := sub.mean / l.LimitCPUs; used > nearlyAll {
		w = append(w, fmt.Sprintf("it wants %s of the advised limit of %s on average, which leaves little to catch up with: any more load, or the same at other moments of a period, may be throttled most of the time, so take a higher limit",
			quantity.Share(used), quantity.CPUs(l.LimitCPUs)))
	}
	quota := quotaOf(l.LimitCPUs, sub.period)
	all, longest := sub.wanted.longestRow(quota, int64(l.BurstPercent/100*float64(quota)))
	if longest >= leastThrottled && 2*longest >= all {
		w = append(w, fmt.Sprintf("most of what is throttled at the advised limit of %s is one row of %v: a single event, in which it waits for long; so record for longer, or want a smaller share if such events count",
			quantity.CPUs(l.LimitCPUs), (time.Duration(longest)*sub.period).Round(time.Second/10)))
	}
	return w
}

func stepsToCPUs(steps int) float64 { return float64(steps) / limitSteps }

// quotaOf returns the CPU time of one period of a limit.
func quotaOf(cpus float64, period time.Duration) int64 {
	return int64(math.Round(cpus * float64(period)))
}

// explain says why a limit is what it is.
func (l *Limit) explain(sub *subject) {
	if !l.Enough {
		return
	}
	with := "without burst"
	if l.BurstPercent > 0 {
		with = fmt.Sprintf("with a burst of %s", quantity.Share(l.BurstPercent/100))
	}
	l.Reason = fmt.Sprintf("%s, a limit of %s throttles %s of %d periods (wanted: at most %s); with %s confidence the limit is between %s and %s; fitted to the first half alone it is %s, which throttles %s of the second",
		with, quantity.CPUs(l.LimitCPUs), quantity.Share(l.ThrottleRatio), len(sub.wanted), quantity.Share(sub.goal.ThrottleRatio),
		quantity.Share(Confidence), quantity.Number(l.LowCPUs, 2), quantity.CPUs(l.HighCPUs), quantity.CPUs(l.HeldOut.LimitCPUs), quantity.Share(l.HeldOut.JudgedThrottleRatio))
}
