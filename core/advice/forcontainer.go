package advice

import (
	"context"
	"fmt"
	"time"

	"pinfold.dev/pinfold/core/trace"
)

// ForContainer returns the advice for one series that was recorded at a nominal interval. Missing
// data is not an error: the finding reports it. The error wraps ErrGoal if the goal is invalid, or
// is that of ctx.
func ForContainer(ctx context.Context, s *trace.Series, nominal time.Duration, goal Goal, options Options) (Container, error) {
	if err := check(goal, options); err != nil {
		return Container{}, err
	}
	sub := newSubject(s, nominal, goal)
	c := Container{Group: s.Group, Name: s.Name, Recorded: sub.recorded(), Warnings: sub.warnings(), Timescales: trace.Timescales(s, nominal)}
	c.LimitWithoutBurst = sub.limitFor(0)
	c.LimitWithBurst = sub.limitFor(goal.Burst)
	c.Warnings = append(c.Warnings, c.LimitWithBurst.cautions(sub)...)
	at := sub.limitToAdviseFor(c.LimitWithBurst)
	c.Burst = sub.burstAt(at)
	c.ScaleOut = sub.scaleOutAt(at)
	if err := sub.intervals(ctx, &c, at, options); err != nil {
		return Container{}, fmt.Errorf("advise on %s: %w", s.Group, err)
	}
	c.LimitWithoutBurst.explain(sub)
	c.LimitWithBurst.explain(sub)
	c.Burst.explain(sub, at)
	c.ScaleOut.explain(sub, at, c.Burst)
	c.Curve = sub.curveAt(at)
	c.Period = sub.periodAt(at)
	c.Binding = sub.bindingAt(at)
	c.Parallelism = sub.parallelismAt(at, c.Burst)
	return c, context.Cause(ctx)
}

// intervals computes the confidence intervals of all that was found in the same resamples.
func (sub *subject) intervals(ctx context.Context, c *Container, at limitAt, options Options) error {
	if sub.blocks == nil || sub.unsure != "" {
		return nil
	}
	ratio, quota := sub.goal.ThrottleRatio, quotaOf(at.cpus, sub.period)
	found, err := bootstrap(ctx, sub.blocks, len(sub.wanted), sub.period, options, func(a amounts) []float64 {
		counts := a.bursts(quota)
		return []float64{
			stepsToCPUs(a.smallestLimit(sub.period, 0, ratio)),
			stepsToCPUs(a.smallestLimit(sub.period, sub.goal.Burst, ratio)),
			float64(counts.worthHaving(ratio)),
			a.mean() / float64(quota),
		}
	})
	if err != nil {
		return err
	}
	for i, f := range []struct {
		enough    bool
		value     float64
		low, high *float64
	}{
		{c.LimitWithoutBurst.Enough, c.LimitWithoutBurst.LimitCPUs, &c.LimitWithoutBurst.LowCPUs, &c.LimitWithoutBurst.HighCPUs},
		{c.LimitWithBurst.Enough, c.LimitWithBurst.LimitCPUs, &c.LimitWithBurst.LowCPUs, &c.LimitWithBurst.HighCPUs},
		{c.Burst.Enough, c.Burst.BurstPercent, &c.Burst.LowPercent, &c.Burst.HighPercent},
		{c.ScaleOut.Enough, c.ScaleOut.Utilisation, &c.ScaleOut.LowUtilisation, &c.ScaleOut.HighUtilisation},
	} {
		if f.enough {
			// Seams between pieces may break a rhythm that is always kept in the recording.
			*f.low, *f.high = min(f.value, found[i].low), max(f.value, found[i].high)
		}
	}
	return nil
}
