package advice

import (
	"context"
	"fmt"

	"pinfold.dev/pinfold/core/quantity"
)

// MaxWaited is the largest Recorded.Waited without a warning.
const MaxWaited = .05

// widen extends the intervals of limits to the demand had no thread waited for a CPU while it was
// recorded ([trace.Series.Unhindered]). Work that waited behind others was done later than it was
// wanted, so its peaks are flatter than on a machine with idle CPUs. Demand is between the two:
// waiting threads wanted a CPU all the time, but a thread that always finds more to do may have got
// some of it later. So the limit is between the ends of both intervals, and another recording
// throttles at most what the advised limit throttles of either demand. Without a trace it is not
// known how many threads waited at a time, so nothing bounds the demand: there is only a warning.
func (sub *subject) widen(ctx context.Context, c *Container, at limitAt, options Options) error {
	if sub.obstacle() != "" {
		return nil
	}
	waited := ""
	if sub.waited > MaxWaited {
		waited = fmt.Sprintf("while it was recorded its threads waited for CPUs for %s of the time for which they ran: ", quantity.Share(sub.waited))
	}
	if sub.unhindered == nil {
		if waited != "" {
			c.Warnings = append(c.Warnings, waited+"it wanted more than the recording shows; record on a less busy machine, or with --exact, which shows how much more")
		}
		return nil
	}
	free := *sub
	free.demand.Phases = sub.unhindered
	free.wanted = phasesOf(&free.demand)
	if free.pieces = free.wanted.pieces(sub.piece); free.pieces == nil {
		return nil
	}
	other := Container{LimitWithoutBurst: free.limitFor(0), LimitWithBurst: free.limitFor(sub.goal.Burst)}
	if err := free.intervals(ctx, &other, at, options); err != nil {
		return err
	}
	for _, pair := range [][2]*Limit{{&c.LimitWithoutBurst, &other.LimitWithoutBurst}, {&c.LimitWithBurst, &other.LimitWithBurst}} {
		l, o := pair[0], pair[1]
		l.LowCPUs, l.HighCPUs = min(l.LowCPUs, o.LowCPUs), max(l.HighCPUs, o.HighCPUs)
		quota := quotaOf(l.LimitCPUs, sub.period)
		l.HighThrottleRatio = max(l.HighThrottleRatio, free.wanted.throttleRatio(quota, int64(l.BurstPercent/100*float64(quota))))
	}
	if waited != "" {
		c.Warnings = append(c.Warnings, fmt.Sprintf("%swithout that it needs up to %s with burst; record on a less busy machine",
			waited, quantity.CPUs(c.LimitWithBurst.HighCPUs)))
	}
	return nil
}
