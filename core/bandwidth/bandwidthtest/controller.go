package bandwidthtest

import (
	"fmt"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
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

// Period is the outcome of one period.
type Period struct {
	Usage   time.Duration // CPU time used, backlog of earlier periods included
	Backlog time.Duration // what is still wanted at the end
}

// Throttled reports whether the group was throttled at the period's end.
func (p Period) Throttled() bool { return p.Backlog > 0 }

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

// Backlog returns the CPU time that was demanded and is not yet served.
func (c *Controller) Backlog() time.Duration { return c.backlog }

// Left returns the CPU time in the bucket: what can be used before the next tick or write. It is
// undefined without a quota.
func (c *Controller) Left() time.Duration { return c.pool.runtime }

// Use adds demand (none if it is negative) and returns the CPU time used for it and for the
// backlog.
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

// Write is one write of settings to the kernel, whether they differ or not: it
// refills the bucket by one quota (burst is counted as at a tick) and ends
// throttling. The backlog is used by the next Use, of 0 if need be. An error means
// that nothing was changed.
//
// A new period takes effect with the tick that comes next.
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

// Step simulates one whole period without a write.
func (c *Controller) Step(demand time.Duration) Period {
	p := Period{Usage: c.Use(demand)}
	p.Backlog = c.backlog
	c.Tick()
	return p
}
