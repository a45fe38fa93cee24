package advice

import (
	"errors"
	"fmt"
	"slices"

	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/core/interference/lindley"
	"pinfold.dev/pinfold/core/quantity"
)

// burstAt returns the burst worth having at a limit, without its confidence interval.
func (sub *subject) burstAt(at limitAt) Burst {
	b := Burst{AtLimitCPUs: at.cpus}
	if b.Reason = at.obstacle(sub); b.Reason != "" {
		return b
	}
	b.Enough = true
	quota := quotaOf(at.cpus, sub.period)
	counts := sub.wanted.bursts(quota)
	percent := counts.worthHaving(sub.goal.ThrottleRatio)
	b.Delay = sub.wanted.delay(quota, quota*int64(percent)/100, sub.period)
	b.BurstPercent = float64(percent)
	b.ThrottleRatioWithout, b.ThrottleRatioWith = counts.ratio(0), counts.ratio(percent)
	b.ReachesGoal = b.ThrottleRatioWith <= sub.goal.ThrottleRatio
	return b
}

func (b *Burst) explain(sub *subject, at limitAt) {
	if !b.Enough {
		return
	}
	goal := quantity.Share(sub.goal.ThrottleRatio)
	switch {
	case b.BurstPercent == 0 && b.ReachesGoal:
		b.Reason = fmt.Sprintf("at %s only %s of the periods are throttled without burst (wanted: at most %s)", at.name, quantity.Share(b.ThrottleRatioWithout), goal)
	case sub.mean >= at.cpus:
		b.Reason = fmt.Sprintf("at %s average demand is %s, which leaves nothing to save for bursts: %s of the periods are throttled with any burst",
			at.name, quantity.CPUs(sub.mean), quantity.Share(b.ThrottleRatioWith))
	case b.ReachesGoal:
		b.Reason = fmt.Sprintf("at %s, %s of the periods are throttled without burst, and %s with a burst of %s of the quota (between %.0f%% and %.0f%% with %s confidence; wanted: at most %s)",
			at.name, quantity.Share(b.ThrottleRatioWithout), quantity.Share(b.ThrottleRatioWith), quantity.Share(b.BurstPercent/100), b.LowPercent, b.HighPercent, quantity.Share(Confidence), goal)
	default:
		beyond := "and the kernel accepts at most 100% of the quota"
		if b.BurstPercent < 100 {
			beyond = fmt.Sprintf("and more than %s of the quota hardly helps", quantity.Share(b.BurstPercent/100))
		}
		b.Reason = fmt.Sprintf("at %s burst reduces the throttled periods from %s to %s, not to the wanted %s, %s; a higher limit is needed as well",
			at.name, quantity.Share(b.ThrottleRatioWithout), quantity.Share(b.ThrottleRatioWith), goal, beyond)
	}
}

// curveAt returns the throttle ratio as a function of the burst at a limit.
func (sub *subject) curveAt(at limitAt) Curve {
	c := Curve{AtLimitCPUs: at.cpus}
	if c.Reason = at.unknown(sub); c.Reason != "" {
		return c
	}
	c.Enough = true
	c.Reason = fmt.Sprintf("%d periods at %s, in recorded order and in random order", sub.periods(), at.name)
	counts := sub.wanted.bursts(quotaOf(at.cpus, sub.period))
	var bursts []float64
	for percent := 0; percent <= maxBurst; {
		c.Points = append(c.Points, CurvePoint{BurstPercent: float64(percent), ThrottleRatio: counts.ratio(percent)})
		bursts = append(bursts, float64(percent)/100)
		if percent < 100 {
			percent += 5
		} else {
			percent += 25
		}
	}
	throttling, err := sub.independent(at.cpus, bursts)
	if err != nil {
		c.IndependentMissing = err.Error()
		return c
	}
	for i := range throttling {
		c.Points[i].Independent = &throttling[i]
	}
	return c
}

// independent computes the throttling of the recorded periods of all phases in random order. A recording has no
// density, so the midpoint of the bounds is the best estimate.
func (sub *subject) independent(limit float64, bursts []float64) ([]lindley.Throttling, error) {
	empirical, err := demand.NewEmpirical(slices.Concat(sub.demand.InQuotas(limit)...))
	if err != nil {
		return nil, err
	}
	throttling, _, err := lindley.Bounds(empirical, bursts, lindley.DefaultSteps)
	if errors.Is(err, lindley.ErrUnstable) {
		return nil, fmt.Errorf("average demand of %s is not below the limit", quantity.CPUs(sub.mean))
	}
	return throttling, err
}
