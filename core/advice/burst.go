package advice

import (
	"errors"
	"fmt"

	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/core/interference/lindley"
	"pinfold.dev/pinfold/core/quantity"
)

// burstAt returns the burst worth having at a limit, without its interval.
func (sub *subject) burstAt(at limitAt) Burst {
	b := Burst{AtLimitCPUs: at.cpus}
	if b.Reason = at.lacking(sub); b.Reason != "" {
		return b
	}
	b.Enough = true
	counts := sub.wanted.bursts(quotaOf(at.cpus, sub.period))
	percent := counts.worthHaving(sub.goal.ThrottleRatio)
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
		b.Reason = fmt.Sprintf("at %s it wants %s on average, so there is nothing to save up for a burst: %s of the periods are throttled whatever it is",
			at.name, quantity.CPUs(sub.mean), quantity.Share(b.ThrottleRatioWith))
	case b.ReachesGoal:
		b.Reason = fmt.Sprintf("at %s, %s of the periods are throttled without burst, and %s with a burst of %s of the quota (between %.0f%% and %.0f%% with %s confidence; wanted: at most %s)",
			at.name, quantity.Share(b.ThrottleRatioWithout), quantity.Share(b.ThrottleRatioWith), quantity.Share(b.BurstPercent/100), b.LowPercent, b.HighPercent, quantity.Share(Confidence), goal)
	default:
		beyond := "and the kernel takes no more than 100% of the quota"
		if b.BurstPercent < 100 {
			beyond = fmt.Sprintf("and beyond %s of the quota it gets hardly better", quantity.Share(b.BurstPercent/100))
		}
		b.Reason = fmt.Sprintf("at %s burst takes the throttled periods from %s to %s, not to the wanted %s, %s; a higher limit is needed as well",
			at.name, quantity.Share(b.ThrottleRatioWithout), quantity.Share(b.ThrottleRatioWith), goal, beyond)
	}
}

// curveAt returns the throttle ratio over the burst at a limit.
func (sub *subject) curveAt(at limitAt) Curve {
	c := Curve{AtLimitCPUs: at.cpus}
	if c.Reason = at.unknown(sub); c.Reason != "" {
		return c
	}
	c.Enough = true
	c.Reason = fmt.Sprintf("%d periods at %s, in the order in which they came, and independent of each other", len(sub.wanted), at.name)
	counts := sub.wanted.bursts(quotaOf(at.cpus, sub.period))
	var bursts []float64
	for percent := 0; percent <= mostBurst; {
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
	for i, t := range throttling {
		c.Points[i].Independent = &Bounded{Probability: t.Probability, Lower: t.Lower, Upper: t.Upper}
	}
	return c
}

// independent solves the queue of periods like the recorded ones, in any order. Recordings have
// no density, so the middle of the bounds is the best estimate.
func (sub *subject) independent(limit float64, bursts []float64) ([]lindley.Throttling, error) {
	empirical, err := demand.NewEmpirical(inQuotas(sub.demand.CPUs, limit))
	if err != nil {
		return nil, err
	}
	throttling, _, err := lindley.Bounds(empirical, bursts, lindley.DefaultSteps)
	if errors.Is(err, lindley.ErrUnstable) {
		return nil, fmt.Errorf("it wants %s on average, which is not below the limit", quantity.CPUs(sub.mean))
	}
	return throttling, err
}
