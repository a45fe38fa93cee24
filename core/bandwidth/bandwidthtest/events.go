package bandwidthtest

import (
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
)

// nextEvent returns when something is to be done, if the caller does nothing before.
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

// run lets CPUs run up to a time before which there is no event.
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

// handle does what is to be done now.
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
		g.slack = -1
		g.useSlack()
	}
	for i := range g.cpus {
		c := &g.cpus[i]
		if c.running() && g.looks() {
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

// distribute is distribute_cfs_runtime: CPUs get what they need to be 1 ns out of
// debt, those first that were throttled first.
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

func (g *Group) startSlack() {
	if g.machine.Slack == 0 || g.slack >= 0 || g.period-g.now < g.machine.Slack+g.machine.Margin {
		return
	}
	g.slack = g.now + g.machine.Slack
}

// useSlack is do_sched_cfs_slack_timer, which comes in time here.
func (g *Group) useSlack() {
	if g.pool.runtime > g.machine.Slice && g.pool.limits.Quota != bandwidth.Unlimited {
		g.distribute()
	}
}

// take takes time from the bucket and starts the timer when it has stopped.
func (g *Group) take(want time.Duration) time.Duration {
	if !g.pool.active {
		g.startTimer()
	}
	return g.pool.take(want)
}

// startTimer is start_cfs_bandwidth: the timer counts on from when it stopped, in
// the periods of now.
func (g *Group) startTimer() {
	g.passStopped()
	g.period = g.stopped
	if d := g.now - g.period; d >= 0 {
		g.period += (d/g.pool.limits.Period + 1) * g.pool.limits.Period
	}
	g.pool.active = true
}

// passStopped counts the periods that went by while the timer was stopped.
func (g *Group) passStopped() {
	if d := g.now - g.period; !g.pool.active && d >= 0 {
		n := d/g.pool.limits.Period + 1
		g.stats.WallPeriods += int64(n)
		g.period += n * g.pool.limits.Period
	}
}

func (g *Group) fluid() bool { return g.machine.Slice == 0 }
