package throttling

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/lab/load"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Row is one measurement.
type Row struct {
	Name  string
	Limit bandwidth.Limits
	Load  load.Result
	// Counted is what the kernel counted during the Wall time.
	Counted cgroup.Stat
	Wall    time.Duration
}

// Measure sends requests and reads the statistics of groups before, and after the
// plan's duration: the pause after the last batch belongs to it. A server is held by
// the limit of each group that it is in, its container's and its pod's, say; what
// counts is the group that was throttled most, of several the first. Without groups
// only latencies are measured. What was measured until the context was cancelled is
// returned with the error.
func Measure(ctx context.Context, groups *cgroup.FS, of []string, limit bandwidth.Limits, plan load.Plan, send load.Send) (Row, error) {
	row := Row{Limit: limit}
	before, err := stats(groups, of)
	if err != nil {
		return row, err
	}
	begin := time.Now()
	var loadErr error
	row.Load, loadErr = load.Run(ctx, plan, send)
	if loadErr == nil {
		sleep.For(ctx, time.Until(begin.Add(plan.Duration)))
	}
	after, err := stats(groups, of)
	if err != nil {
		return row, errors.Join(loadErr, err)
	}
	row.Wall = time.Since(begin)
	for i := range of {
		counted, err := difference(before[i], after[i])
		if err != nil {
			return row, errors.Join(loadErr, fmt.Errorf("statistics of %s: %w", of[i], err))
		}
		if i == 0 || counted.Throttled > row.Counted.Throttled {
			row.Counted = counted
		}
	}
	return row, loadErr
}

func stats(groups *cgroup.FS, of []string) ([]cgroup.Stat, error) {
	all := make([]cgroup.Stat, len(of))
	for i, group := range of {
		var err error
		if all[i], err = groups.Stat(group); err != nil {
			return nil, fmt.Errorf("statistics of %s: %w", group, err)
		}
	}
	return all, nil
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
func (r Row) OfWallPeriods() float64 {
	if r.Limit.Period <= 0 {
		return 0
	}
	return ratio(r.Counted.Throttled, uint64(r.Wall/r.Limit.Period))
}

// Used is the usage as a share of the limit, 0 without a limit.
func (r Row) Used() float64 {
	if r.Limit.Quota <= 0 || r.Wall <= 0 {
		return 0
	}
	return r.Counted.Usage.Seconds() / r.Wall.Seconds() * r.Limit.Period.Seconds() / r.Limit.Quota.Seconds()
}

// ratio is 0 when there is nothing to divide by.
func ratio(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
