package bandwidthtest

import "time"

// Stats are counted as the kernel counts them in cpu.stat, and over wall periods.
type Stats struct {
	// WallPeriods counts all periods that went by, Periods those in which the timer
	// ran (nr_periods). A group that is idle now and then has fewer of the latter, so
	// Throttled/Periods is more than Throttled/WallPeriods.
	WallPeriods int64
	Periods     int64
	Throttled   int64         // periods that ended throttled (nr_throttled)
	Bursts      int64         // periods in which more than the quota was taken (nr_bursts)
	BurstTime   time.Duration // CPU time taken beyond quota (burst_time)
	Usage       time.Duration // CPU time used
	// ThrottledTime is summed over CPUs (throttled_time). Within a period a
	// Controller knows no time, and leaves it 0.
	ThrottledTime time.Duration
}
