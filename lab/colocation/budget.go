package colocation

import (
	"context"
	"sync"
	"time"

	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/linux/cgroup"
)

const (
	period = 100 * time.Millisecond // of quotas, and between samples, as the agent's
	floor  = quantity.CPUs(0.1)
)

// budget writes the quota of batch work until it is ended, as the agent does for its tier.
func (r *rig) budget(ctx context.Context, c Condition) (end func() error) {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	var failed error
	group.Go(func() { failed = r.suppress(ctx, c) })
	return func() error { cancel(); group.Wait(); return failed }
}

func (r *rig) suppress(ctx context.Context, c Condition) error {
	budget := colocation.New(colocation.Config{Threshold: c.Threshold, Floor: floor})
	var all, batch cgroup.Meter
	begun := time.Now()
	var last time.Time
	var written time.Duration
	for {
		everything, err := r.groups.Everything()
		if err != nil {
			return err
		}
		total, knownAll := all.Used(r.groups, everything)
		own, knownBatch := batch.Used(r.groups, []string{r.batch})
		now := time.Now()
		tick := colocation.Tick{Now: now.Sub(begun), CPUs: r.cpus().Len(), Unsampled: last.IsZero() || !knownAll || !knownBatch}
		if !tick.Unsampled {
			tick.Others = quantity.CPUs(max(0, total-own)) / quantity.CPUs(now.Sub(last))
		}
		last = now
		quota := time.Duration(float64(budget.Step(tick).Budget) * float64(period)).Round(time.Millisecond)
		if quota > 0 && quota != written {
			if err := r.groups.Apply(map[string]cgroup.Wanted{r.batch: {Quota: &quota, Period: new(period)}}).Err(); err != nil {
				return err
			}
			written = quota
		}
		if !sleep.For(ctx, period) {
			return nil
		}
	}
}
