package experiment

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
)

// budgetFloor is what a service with a budget gets in any case.
const budgetFloor = quantity.CPUs(0.1)

// control begins to do for services what the agent does for pods: to write the quotas of those that
// have a budget, or whose quota may be raised, and to put others behind the rest.
func (r *run) control(ctx context.Context, running *services) (end func() error, err error) {
	if r.inPods {
		return func() error { return nil }, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	errs := make([]error, len(running.all))
	end = func() error { cancel(); group.Wait(); return errors.Join(errs...) }
	for i, s := range running.all {
		if s.Budget > 0 {
			group.Go(func() { errs[i] = r.suppress(ctx, s) })
		}
		if s.Raise {
			group.Go(func() { errs[i] = r.raise(ctx, s) })
		}
		behind, err := r.putBehind(s)
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
func (r *run) suppress(ctx context.Context, s *service) error {
	budget := colocation.New(colocation.Config{Threshold: s.Budget, Floor: budgetFloor})
	groups := r.machine.groups
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
		tick := colocation.Tick{Now: now.Sub(begun), CPUs: r.cpus.Len(), Unsampled: last.IsZero() || !knownAll || !knownOwn}
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
