package bandwidth

import "time"

// Replay is equivalent to calling Step for each period of a trace, but faster: it does not
// allocate, and no branch depends on the demand. It writes the outcome of period i to dst[i] as far
// as dst has room. Pass a nil dst to get only the Stats.
func (c *Controller) Replay(dst []Period, demand []time.Duration) {
	if c.pool.limits.Quota == Unlimited {
		c.steps(dst, demand)
		return
	}
	for len(demand) > 0 {
		part := demand
		if len(dst) > 0 {
			part = demand[:min(len(dst), len(demand))]
			c.replay(dst[:len(part)], part)
			dst = dst[len(part):]
		} else {
			c.count(part)
		}
		demand = demand[len(part):]
	}
}

func (c *Controller) steps(dst []Period, demand []time.Duration) {
	for i, d := range demand {
		p := c.Step(d)
		if i < len(dst) {
			dst[i] = p
		}
	}
}

func (c *Controller) replay(dst []Period, demand []time.Duration) {
	r := c.begin()
	for i, d := range demand {
		used := r.step(d)
		dst[i] = Period{Usage: used, Backlog: r.backlog}
	}
	r.end(c, len(demand))
}

func (c *Controller) count(demand []time.Duration) {
	r := c.begin()
	for _, d := range demand {
		r.step(d)
	}
	r.end(c, len(demand))
}

// run is a limited Controller in registers. Two things make it shorter: while the
// timer is stopped the bucket is full, so a refill then changes nothing and can be
// done always; and "active" and "idle" are one number, the ticks that still come when
// nothing is used: 0 to 2.
type run struct {
	quota, full            time.Duration
	backlog, runtime, snap time.Duration
	ticks                  int64
	stats                  Stats
}

func (c *Controller) begin() run {
	l := c.pool.limits
	return run{
		quota: l.Quota, full: l.Quota + l.Burst,
		backlog: c.backlog, runtime: c.pool.runtime, snap: c.pool.snap,
		ticks: c.pool.ticks(), stats: c.stats,
	}
}

// step is small enough for the compiler to put it into the loops above.
func (r *run) step(demand time.Duration) time.Duration {
	need := r.backlog + max(demand, 0)
	used := min(need, r.runtime)
	r.backlog = need - used
	r.runtime += r.quota - used
	over := max(r.snap-r.runtime, 0)
	r.runtime = min(r.runtime, r.full)
	r.snap = r.runtime
	// A backlog at the end of a period means that something was used in it, since
	// the bucket has at least one quota then.
	ticks := max(r.ticks, 2*positive(used))
	r.ticks = max(ticks-1, 0)
	r.stats.Periods += min(ticks, 1)
	r.stats.Throttled += positive(r.backlog)
	r.stats.Bursts += positive(over)
	r.stats.BurstTime += over
	r.stats.Usage += used
	return used
}

func (r *run) end(c *Controller, periods int) {
	r.stats.WallPeriods += int64(periods)
	c.stats, c.backlog, c.throttled = r.stats, r.backlog, r.backlog > 0
	c.pool.runtime, c.pool.snap = r.runtime, r.snap
	if c.throttled { // and then the kernel knows that the group is not idle
		r.ticks = 2
	}
	c.pool.setTicks(r.ticks)
}

// positive is 1 for d > 0 and 0 for d = 0.
func positive(d time.Duration) int64 { return int64(uint64(-d) >> 63) }

// ticks returns how many ticks of the timer are to come when nothing is taken.
func (p *pool) ticks() int64 {
	switch {
	case !p.active:
		return 0
	case p.idle:
		return 1
	}
	return 2
}

func (p *pool) setTicks(n int64) { p.active, p.idle = n > 0, n < 2 }
