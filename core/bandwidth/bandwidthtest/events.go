package bandwidthtest

import (
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
)

// nextEvent returns the time of the next event, if the caller does nothing before.
func (g *Group) nextEvent() time.Duration {
	at := never
	if g.pool.active {
		at = g.period
	}
	if g.slack >= 0 {
		at = min(at, g.slack)
	}
	for i := range g.cpus {
		at = min(at, g.next(&g.cpus[i]))
	}
	return at
}

// run lets CPUs run until the given time, before which there is no event.
func (g *Group) run(until time.Duration) {
	d := until - g.now
	if d == 0 {
		return
	}
	limited := g.pool.limits.Quota != bandwidth.Unlimited
	for i := range g.cpus {
		c := &g.cpus[i]
		if !c.running() {
			continue
		}
		c.queue[0].left -= d
		c.ran += d
		g.stats.Usage += d
		if limited {
			c.local -= d
		}
		if limited && g.fluid() {
			g.pool.idle = false
		}
	}
	g.now = until
}

// handle processes the events of the current time.
func (g *Group) handle() {
	for i := range g.cpus {
		if c := &g.cpus[i]; c.running() && c.queue[0].left == 0 {
			g.finish(i)
		}
	}
	if g.pool.active && g.period == g.now {
		g.endPeriod()
	}
	if g.slack == g.now {
		g.slack = -1 // do_sched_cfs_slack_timer, which is never late here
		if g.pool.runtime > g.machine.Slice && g.pool.limits.Quota != bandwidth.Unlimited {
			g.distribute()
		}
	}
	for i := range g.cpus {
		c := &g.cpus[i]
		if c.running() && g.accounts() {
			g.account(i)
		}
		if t := g.machine.Turn; t > 0 && c.running() && c.ran >= t && len(c.queue) > 1 {
			first := c.pop()
			c.queue = append(c.queue, first)
			g.account(i)
		}
	}
}

// endPeriod is do_sched_cfs_period_timer.
func (g *Group) endPeriod() {
	throttled := len(g.throttled) > 0
	g.pool.tick(throttled, &g.stats)
	g.period += g.pool.limits.Period
	if !g.pool.active {
		g.stopped = g.period
	}
	g.distribute()
}

// distribute is distribute_cfs_runtime: in the order in which they were throttled, CPUs get what
// they need to be 1 ns out of debt.
func (g *Group) distribute() {
	still := g.throttled[:0]
	for _, i := range g.throttled {
		c := &g.cpus[i]
		if g.pool.runtime > 0 {
			c.local += g.take(1 - c.local)
		}
		if c.local <= 0 {
			still = append(still, i)
			continue
		}
		g.unthrottle(i)
	}
	g.throttled = still
}

// take takes time from the bucket and starts the timer if it has stopped.
func (g *Group) take(want time.Duration) time.Duration {
	if !g.pool.active {
		g.startTimer()
	}
	return g.pool.take(want)
}

// startTimer is start_cfs_bandwidth: the timer continues from when it stopped, with the current
// period.
func (g *Group) startTimer() {
	g.passStopped()
	g.period = g.stopped
	if d := g.now - g.period; d >= 0 {
		g.period += (d/g.pool.limits.Period + 1) * g.pool.limits.Period
	}
	g.pool.active = true
}

// passStopped counts the periods that passed while the timer was stopped.
func (g *Group) passStopped() {
	if d := g.now - g.period; !g.pool.active && d >= 0 {
		n := d/g.pool.limits.Period + 1
		g.stats.WallPeriods += int64(n)
		g.period += n * g.pool.limits.Period
	}
}

func (g *Group) fluid() bool { return g.machine.Slice == 0 }

// gather returns to the bucket what CPUs have not used. In the ideal fluid it precedes every event,
// and deal follows it, so CPUs hold no time across events.
func (g *Group) gather() {
	if !g.fluid() || g.pool.limits.Quota == bandwidth.Unlimited {
		return
	}
	for i := range g.cpus {
		g.pool.runtime += g.cpus[i].local
		g.cpus[i].local = 0
	}
}

// deal gives each running CPU of a fluid machine an equal share of the bucket; the first ones get a
// nanosecond more if it does not divide evenly. A CPU that gets nothing is throttled.
func (g *Group) deal() {
	if !g.fluid() || g.pool.limits.Quota == bandwidth.Unlimited {
		return
	}
	g.gather()
	var running time.Duration
	for i := range g.cpus {
		if g.cpus[i].running() {
			running++
		}
	}
	if running == 0 {
		return
	}
	if !g.pool.active {
		g.startTimer()
	}
	share, more := g.pool.runtime/running, g.pool.runtime%running
	for i := range g.cpus {
		c := &g.cpus[i]
		if !c.running() {
			continue
		}
		c.local = share
		if more > 0 {
			c.local++
			more--
		}
		if c.local == 0 {
			g.throttle(i)
		}
		g.pool.runtime -= c.local
	}
}
