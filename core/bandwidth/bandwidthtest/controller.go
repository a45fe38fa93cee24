package bandwidthtest

import (
	"fmt"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
)

// Controller simulates a group's bandwidth controller, one period at a time. Demand is an amount of
// CPU time per period, and the group runs on as many CPUs as it needs. Unserved demand becomes
// backlog, which is served before later demand.
//
// A period consists of calls of [Controller.Use] and [Controller.Write] in any order, ended by
// [Controller.Tick]; [Controller.Step] is one Use and one Tick. A Controller is a value: a copy
// saves its state. Sums of demand must not overflow a time.Duration (292 years).
type Controller struct {
	pool      pool
	backlog   time.Duration // >= 0
	throttled bool          // since the last write; implies backlog > 0
	stats     Stats
}

// NewController returns the controller of a group that has been idle for some periods: its bucket
// is full and its timer has stopped.
func NewController(l bandwidth.Limits) (Controller, error) {
	if err := l.Validate(); err != nil {
		return Controller{}, fmt.Errorf("model a bandwidth controller: %w", err)
	}
	return Controller{pool: fullPool(l)}, nil
}

// Limits returns the settings in force.
func (c *Controller) Limits() bandwidth.Limits { return c.pool.limits }

// Stats returns the counters since the start.
func (c *Controller) Stats() Stats { return c.stats }

// Backlog returns the CPU time that was demanded and is not yet served. The group is throttled at
// the end of a period if it is above 0.
func (c *Controller) Backlog() time.Duration { return c.backlog }

// Use adds demand (none if negative) and returns the CPU time used for it and for the backlog.
func (c *Controller) Use(demand time.Duration) time.Duration {
	need := c.backlog + max(demand, 0)
	used := need
	if c.pool.limits.Quota != bandwidth.Unlimited {
		used = 0
		if need > 0 {
			used = c.pool.take(need)
		}
	}
	c.backlog = need - used
	c.throttled = c.backlog > 0
	c.stats.Usage += used
	return used
}

// Write simulates one write of settings to the kernel, whether they differ or not: it refills the
// bucket by one quota (burst is counted as at a tick) and ends throttling. The backlog is served by
// the next call of Use. After an error nothing has changed. A new period takes effect at the next
// tick.
func (c *Controller) Write(l bandwidth.Limits) error {
	if err := l.Validate(); err != nil {
		return fmt.Errorf("write bandwidth settings: %w", err)
	}
	c.pool.write(l, &c.stats)
	c.throttled = false
	return nil
}

// Tick ends the period. If the timer runs, it counts the period and refills the bucket.
func (c *Controller) Tick() {
	c.pool.tick(c.throttled, &c.stats)
}

// Step simulates one whole period without a write and returns the CPU time used.
func (c *Controller) Step(demand time.Duration) time.Duration {
	used := c.Use(demand)
	c.Tick()
	return used
}

// pool is the kernel's state per group (struct cfs_bandwidth): the remaining CPU time and the
// timer. A group without quota takes nothing from it.
type pool struct {
	limits  bandwidth.Limits
	runtime time.Duration // 0 <= runtime <= quota + burst
	snap    time.Duration // runtime just after the last refill
	active  bool          // the timer is running
	idle    bool          // nothing has been taken since the last tick
}

// fullPool returns the pool of a group that has been idle for some periods.
func fullPool(l bandwidth.Limits) pool {
	full := max(l.Quota, 0) + l.Burst
	return pool{limits: l, runtime: full, snap: full, idle: true}
}

// take starts the timer and returns up to want of the remaining time.
func (p *pool) take(want time.Duration) time.Duration {
	p.active = true
	got := min(want, p.runtime)
	if got > 0 {
		p.runtime -= got
		p.idle = false
	}
	return got
}

// refill is __refill_cfs_bandwidth_runtime: it adds the quota, counts time taken beyond one quota
// since the last refill as burst, and drops time beyond quota + burst.
func (p *pool) refill(s *Stats) {
	if p.limits.Quota == bandwidth.Unlimited {
		return
	}
	p.runtime += p.limits.Quota
	if over := p.snap - p.runtime; over > 0 {
		s.Bursts++
		s.BurstTime += over
	}
	p.runtime = min(p.runtime, p.limits.Quota+p.limits.Burst)
	p.snap = p.runtime
}

// write is tg_set_cfs_bandwidth without its effect on CPUs.
func (p *pool) write(l bandwidth.Limits, s *Stats) {
	p.limits = l
	p.refill(s)
	if l.Quota != bandwidth.Unlimited {
		p.active = true
	}
}

// tick is do_sched_cfs_period_timer up to the distribution of runtime. It refills before it notices
// that the group was idle, so the bucket is full when the timer stops: two refills fill it, because
// burst <= quota.
func (p *pool) tick(throttled bool, s *Stats) {
	s.WallPeriods++
	switch {
	case !p.active:
		return
	case p.limits.Quota == bandwidth.Unlimited:
		p.active = false
		return
	}
	s.Periods++
	p.refill(s)
	switch {
	case throttled: // so time was taken, and the group is not idle
		s.Throttled++
	case p.idle:
		p.active = false
	default:
		p.idle = true
	}
}

// Stats are the kernel's counters in cpu.stat, and the number of wall-clock periods.
type Stats struct {
	// WallPeriods counts all periods, Periods only those in which the timer ran (nr_periods). For a
	// group that is sometimes idle, Throttled/Periods is larger than Throttled/WallPeriods.
	WallPeriods int64
	Periods     int64
	Throttled   int64         // periods that ended throttled (nr_throttled)
	Bursts      int64         // periods that took more than the quota (nr_bursts)
	BurstTime   time.Duration // CPU time taken beyond quota (burst_time)
	Usage       time.Duration // CPU time used
	// ThrottledTime is summed over CPUs (throttled_time). A Controller leaves it 0, because it has
	// no time within a period.
	ThrottledTime time.Duration
}

// Sample returns what a sampler sees of the counters, which were before at the begin of the
// interval that ends at a time.
func (s Stats) Sample(before Stats, at, interval time.Duration, l bandwidth.Limits) trace.Sample {
	return trace.Sample{
		At: at, Interval: interval, Limits: l, Usage: s.Usage - before.Usage, Periods: uint32(s.Periods - before.Periods),
		Throttled: uint32(s.Throttled - before.Throttled), Bursts: uint32(s.Bursts - before.Bursts),
		ThrottledTime: s.ThrottledTime - before.ThrottledTime, BurstTime: s.BurstTime - before.BurstTime,
	}
}
