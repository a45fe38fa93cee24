// Package throttling measures the effect of a CPU limit on a server: the latencies that clients
// observe, and what the kernel counted in the server's cgroup meanwhile. [MeasureAll] measures, and
// [WriteTable] and [WriteJSON] print the results.
//
// Two shares of throttled periods are reported, because they differ. The kernel's timer runs only
// while the group uses CPU time, and nr_periods counts only those periods. For example, a server
// with a short request twice a second that is throttled each time may be throttled in a third of
// its timer periods but in a fifth of all wall-clock periods.
//
// Usage is in percent of the container's own limit, also while its quota is raised.
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

// Row is the measurement of one server.
type Row struct {
	Name    string
	Limit   bandwidth.Limits
	Load    load.Result
	Counted cgroup.Stat // the kernel's counters, over Wall
	Wall    time.Duration
}

// measure sends the requests of plan and reads the counters of the groups named by of before and
// after it. The pause after the last batch belongs to the plan. A server can be throttled by each
// of its groups, its container's and its pod's; Counted is that of the most throttled group, or of
// the first of several. Without groups, only latencies are measured. When ctx ends, the result up
// to that moment is returned with an error.
func measure(ctx context.Context, groups *cgroup.FS, of []string, limit bandwidth.Limits, plan load.Plan, send load.Send) (Row, error) {
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

// difference returns the increase of the counters between two readings.
func difference(before, after cgroup.Stat) (cgroup.Stat, error) {
	if after.Periods < before.Periods || after.Throttled < before.Throttled || after.Bursts < before.Bursts ||
		after.ThrottledTime < before.ThrottledTime || after.BurstTime < before.BurstTime || after.Usage < before.Usage {
		return cgroup.Stat{}, fmt.Errorf("counters decreased from %+v to %+v: the group was removed and created again", before, after)
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

// OfTimerPeriods returns the share of throttled periods in the periods of the kernel's timer.
func (r Row) OfTimerPeriods() float64 { return ratio(r.Counted.Throttled, r.Counted.Periods) }

// OfWallPeriods returns the share of throttled periods in all wall-clock periods.
func (r Row) OfWallPeriods() float64 {
	if r.Limit.Period <= 0 {
		return 0
	}
	return ratio(r.Counted.Throttled, uint64(r.Wall/r.Limit.Period))
}

// Used returns the usage as a share of the limit, 0 without a limit.
func (r Row) Used() float64 {
	if r.Limit.Quota <= 0 || r.Wall <= 0 {
		return 0
	}
	return r.Counted.Usage.Seconds() / r.Wall.Seconds() * r.Limit.Period.Seconds() / r.Limit.Quota.Seconds()
}

// ratio returns part/whole, 0 if whole is 0.
func ratio(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
