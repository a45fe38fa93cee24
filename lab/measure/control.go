package measure

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
)

// budgetFloor is what a service with a budget gets in any case.
const budgetFloor = quantity.CPUs(0.1)

// controller does for services what the agent does for pods.
type controller struct {
	machine machine
	cpus    cpuset.Set
	dir     string // for files
}

// start begins to write the quotas of services that have a budget, or whose quota may be raised,
// and to put others behind the rest.
func (c controller) start(ctx context.Context, running *services) (end func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	errs := make([]error, len(running.all))
	end = func() error { cancel(); group.Wait(); return errors.Join(errs...) }
	for i, s := range running.all {
		if s.Budget > 0 {
			group.Go(func() { errs[i] = c.suppress(ctx, s) })
		}
		if s.Raise {
			group.Go(func() { errs[i] = c.raise(ctx, s) })
		}
		behind, err := c.putBehind(s)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("put %s behind: %w", s.Name, err), end())
		}
		if behind != nil {
			group.Go(func() { errs[i] = errors.Join(errs[i], behind.keep(ctx)) })
		}
	}
	return end, nil
}

// suppress writes the quotas of a service with a budget until ctx ends, as the agent does for its
// tier of batch pods.
func (c controller) suppress(ctx context.Context, s *service) error {
	budget := colocation.New(colocation.Config{Threshold: s.Budget, Floor: budgetFloor})
	groups := c.machine.Groups
	var all, own cgroupstat.Meter
	begun := time.Now()
	var last time.Time
	var written time.Duration
	for {
		everything, err := cgroupstat.Everything(groups)
		if err != nil {
			return err
		}
		total, knownAll := all.Used(groups, everything)
		used, knownOwn := own.Used(groups, s.groups())
		now := time.Now()
		tick := colocation.Tick{Now: now.Sub(begun), CPUs: c.cpus.Len(), Unsampled: last.IsZero() || !knownAll || !knownOwn}
		if !tick.Unsampled {
			tick.Others = quantity.CPUs(max(0, total-used)) / quantity.CPUs(now.Sub(last))
		}
		last = now
		quota := time.Duration(float64(budget.Step(tick).Budget) * float64(tickEvery)).Round(time.Millisecond)
		if quota > 0 && quota != written {
			for _, group := range s.groups() {
				if err := groups.Apply(map[string]cgroup.Wanted{group: {Quota: &quota, Period: new(tickEvery)}}).Err(); err != nil {
					return err
				}
			}
			written = quota
		}
		if !sleep.For(ctx, tickEvery) {
			return nil
		}
	}
}
