package advice

import (
	"context"
	"fmt"
	"strings"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
)

// farApart is the largest ratio of the limits for the most and the least that a group may have wanted
// for which there is advice.
const farApart = 2

// bound sets what the group may have wanted. Beside others, usage is flatter than demand: in the
// model of a busy machine (TestBusyMachine), services that were throttled and waited for half of
// their run time needed up to 1.7 times the limit that the estimate gave. So where a group waited,
// advice is about the most that it may have wanted. Throttling alone has a better estimate,
// [trace.Series.Demand], which is seldom too low.
func (sub *subject) bound(b trace.Bounds) {
	sub.served, sub.waited = phasesOf(&sub.demand), b.Waited
	sub.least = phasesOf(&trace.Demand{Period: sub.period, Phases: b.Least})
	sub.most = phasesOf(&trace.Demand{Period: sub.period, Phases: b.Most})
	if sub.waited > trace.MaxWaited {
		sub.demand.Phases = b.Most
	}
	sub.wanted = phasesOf(&sub.demand)
}

// whyFarApart withholds advice where the group waited, if the most that it may have wanted needs
// another limit than what it would have wanted had it been throttled only.
func (sub *subject) whyFarApart() string {
	if sub.waited <= trace.MaxWaited {
		return ""
	}
	var low, high [2]float64
	for i, burst := range []float64{0, sub.goal.Burst} {
		low[i], high[i] = sub.smallestLimit(sub.served, burst), sub.smallestLimit(sub.wanted, burst)
	}
	if max(high[0]/low[0], high[1]/low[1]) <= farApart {
		return ""
	}
	return fmt.Sprintf("not enough data: it waited for CPUs for %s of its run time, so it needs between %s and %s; %s",
		quantity.Share(sub.waited), quantity.CPUs(low[1]).Amount(), quantity.CPUs(high[1]), sub.recordAgain())
}

// widen extends intervals to the least and the most that the group may have wanted.
func (sub *subject) widen(ctx context.Context, c *Container, at limitAt, options Options) error {
	if sub.obstacle() != "" || sub.waited <= trace.MaxWaited && (sub.demand.Moved == 0 || sub.demand.Exact) {
		return nil
	}
	limits := []*Limit{&c.LimitWithoutBurst, &c.LimitWithBurst}
	for _, end := range []phases{sub.least, sub.most} {
		found, err := end.bootstrap(ctx, sub.pieces, options, func(p phases, another amounts) []float64 {
			counts := p.bursts(quotaOf(at.cpus, sub.period))
			found := []float64{float64(counts.worthHaving(sub.goal.ThrottleRatio))}
			for _, l := range limits {
				quota, burst := quotaOf(l.LimitCPUs, sub.period), l.BurstPercent/100
				found = append(found, sub.smallestLimit(p, burst), phases{another}.throttleRatio(quota, int64(burst*float64(quota))))
			}
			return found
		})
		if err != nil {
			return err
		}
		widen(&c.Burst.LowPercent, &c.Burst.HighPercent, found[0])
		for i, l := range limits {
			widen(&l.LowCPUs, &l.HighCPUs, found[1+2*i])
			widen(&l.LowThrottleRatio, &l.HighThrottleRatio, found[2+2*i])
		}
	}
	return nil
}

// widen extends an interval to another one.
func widen(low, high *float64, to interval) { *low, *high = min(*low, to.low), max(*high, to.high) }

// isHeldBack reports whether the group was throttled more than wanted and waited for CPUs, too.
// Then no limit below the present one is advised.
func (sub *subject) isHeldBack() bool {
	return sub.waited > trace.MaxWaited && sub.summary.ThrottledOfWall() > sub.goal.ThrottleRatio
}

// smallestLimit returns the smallest limit, in CPUs, that reaches the goal for a demand.
func (sub *subject) smallestLimit(p phases, burst float64) float64 {
	return stepsToCPUs(p.smallestLimit(sub.period, burst, sub.goal.ThrottleRatio))
}

// hindered says what kept the group from running when it wanted to, what that means for the advice,
// and what to do; "" if nothing did.
func (sub *subject) hindered() string {
	var what []string
	counted := sub.summary.ThrottledOfWall()
	replayed, comparable := sub.replayed()
	contradicted := comparable && isFarOff(replayed, counted)
	if sub.wasThrottled() || contradicted {
		throttled := fmt.Sprintf("was throttled in %s of the periods", quantity.Share(counted))
		if contradicted {
			throttled += fmt.Sprintf(", but in %s when replayed at its own limit", quantity.Share(replayed))
		}
		what = append(what, throttled)
	}
	if sub.waited > trace.MaxWaited {
		what = append(what, fmt.Sprintf("waited for CPUs for %s of its run time", quantity.Share(sub.waited)))
	}
	if what == nil {
		return ""
	}
	means := "clients that wait send less, so it may need more"
	if contradicted {
		means = "take the figures with care"
	}
	return fmt.Sprintf("while it was recorded it %s: %s; %s", strings.Join(what, " and "), means, sub.recordAgain())
}

// wasThrottled reports whether throttling hid when work was wanted.
func (sub *subject) wasThrottled() bool {
	return sub.demand.Moved > 0 || sub.demand.Open > 0 || sub.summary.ThrottledTime > 0
}

// recordAgain says how to record without what kept the group from running.
func (sub *subject) recordAgain() string {
	var how []string
	if _, limited := sub.limit(); limited || sub.summary.Throttled > 0 {
		how = append(how, "without a limit")
	}
	switch raised := 2*sub.summary.Raised > sub.summary.Samples; {
	case sub.waited > trace.MaxWaited && raised:
		how = append(how, "on a less busy machine")
	case sub.waited > trace.MaxWaited:
		how = append(how, "with --weight")
	}
	return "record " + strings.Join(how, " and ")
}
