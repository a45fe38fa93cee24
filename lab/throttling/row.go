package throttling

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pinfold.dev/pinfold/lab/load"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Limit is the CPU time that a group may use per period, on average.
type Limit struct{ Quota, Period time.Duration }

// Row is one measurement.
type Row struct {
	Name  string
	Limit Limit
	Load  load.Result
	// Counted is what the kernel counted during the Wall time.
	Counted cgroup.Stat
	Wall    time.Duration
}

// Measure sends requests to a server and reads the statistics of its group before, and
// after the plan's duration: the pause after the last batch belongs to it. What was
// measured until the context was cancelled is returned with the error.
func Measure(ctx context.Context, groups *cgroup.FS, group string, limit Limit, plan load.Plan, send load.Send) (Row, error) {
	row := Row{Limit: limit}
	before, err := groups.Stat(group)
	if err != nil {
		return row, fmt.Errorf("statistics of %s before the load: %w", group, err)
	}
	begin := time.Now()
	var loadErr error
	row.Load, loadErr = load.Run(ctx, plan, send)
	if loadErr == nil {
		sleep(ctx, time.Until(begin.Add(plan.Duration)))
	}
	after, err := groups.Stat(group)
	if err != nil {
		return row, errors.Join(loadErr, fmt.Errorf("statistics of %s after the load: %w", group, err))
	}
	row.Wall = time.Since(begin)
	row.Counted, err = difference(before, after)
	if err != nil {
		err = fmt.Errorf("statistics of %s: %w", group, err)
	}
	return row, errors.Join(loadErr, err)
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// difference is what was counted between two readings.
func difference(before, after cgroup.Stat) (cgroup.Stat, error) {
	if after.Periods < before.Periods || after.Throttled < before.Throttled || after.Bursts < before.Bursts ||
		after.ThrottledTime < before.ThrottledTime || after.BurstTime < before.BurstTime || after.Usage < before.Usage {
		return cgroup.Stat{}, fmt.Errorf("counters went back from %+v to %+v: the group was made anew meanwhile", before, after)
	}
	return cgroup.Stat{
		Periods:       after.Periods - before.Periods,
		Throttled:     after.Throttled - before.Throttled,
		ThrottledTime: after.ThrottledTime - before.ThrottledTime,
		Bursts:        after.Bursts - before.Bursts,
		BurstTime:     after.BurstTime - before.BurstTime,
		NoBursts:      after.NoBursts,
		Usage:         after.Usage - before.Usage,
	}, nil
}

// OfTimerPeriods is the share of throttled periods among those in which the kernel's
// timer ran.
func (r Row) OfTimerPeriods() float64 { return ratio(r.Counted.Throttled, r.Counted.Periods) }

// OfWallPeriods is the share of throttled periods among all that went by.
func (r Row) OfWallPeriods() float64 { return ratio(r.Counted.Throttled, r.Wall/r.Limit.Period) }

// Used is the usage as a share of the limit.
func (r Row) Used() float64 {
	if r.Limit.Quota <= 0 {
		return 0
	}
	return r.Counted.Usage.Seconds() / r.Wall.Seconds() * r.Limit.Period.Seconds() / r.Limit.Quota.Seconds()
}

// ratio is 0 when there is nothing to divide by.
func ratio[A, B ~uint64 | ~int64](part A, whole B) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
