package bandwidthtest

import (
	"slices"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
)

// cpu is the kernel's state per CPU of a group (struct cfs_rq).
type cpu struct {
	queue []request // the first one runs, unless the CPU is throttled
	// local is what is left of the time taken from the bucket (runtime_remaining). It is negative
	// if more was used: before the next accounting, and on a throttled CPU.
	local     time.Duration
	ran       time.Duration // how long the current turn has lasted
	throttled bool
	since     time.Duration // when requests began to wait for the end of throttling
}

type request struct {
	id     int
	left   time.Duration // > 0
	pinned bool
}

func (c *cpu) running() bool { return len(c.queue) > 0 && !c.throttled }

// pop removes the first request and keeps the queue's memory.
func (c *cpu) pop() request {
	r := c.queue[0]
	c.queue, c.ran = slices.Delete(c.queue, 0, 1), 0
	return r
}

// next returns the time of the CPU's next event, if nothing happens before.
func (g *Group) next(c *cpu) time.Duration {
	if !c.running() {
		return never
	}
	at := g.now + c.queue[0].left
	if g.machine.Turn > 0 && len(c.queue) > 1 {
		at = min(at, g.now+max(g.machine.Turn-c.ran, 0))
	}
	switch {
	case g.pool.limits.Quota == bandwidth.Unlimited:
	case g.machine.Tick > 0:
		at = min(at, g.nextTick())
	default:
		at = min(at, g.now+c.local)
	}
	return at
}

// nextTick returns the first tick after now.
func (g *Group) nextTick() time.Duration {
	since := (g.now - g.machine.TickPhase) % g.machine.Tick
	if since < 0 {
		since += g.machine.Tick
	}
	return g.now + g.machine.Tick - since
}

// accounts reports whether running CPUs account their usage now. Without ticks, they do when
// nothing is left, which account checks.
func (g *Group) accounts() bool {
	return g.machine.Tick == 0 || (g.now-g.machine.TickPhase)%g.machine.Tick == 0
}

// account is account_cfs_rq_runtime: a CPU that has used its time takes its debt plus a slice from
// the bucket, and is throttled if that does not exceed the debt.
func (g *Group) account(i int) {
	c := &g.cpus[i]
	if g.fluid() || g.pool.limits.Quota == bandwidth.Unlimited || c.throttled || c.local > 0 {
		return
	}
	c.local += g.take(g.machine.Slice - c.local)
	if c.local <= 0 {
		g.throttle(i)
	}
}

func (g *Group) throttle(i int) {
	c := &g.cpus[i]
	c.throttled, c.since = true, g.now
	g.throttled = append(g.throttled, i)
}

// unthrottle leaves the list g.throttled to the caller.
func (g *Group) unthrottle(i int) {
	c := &g.cpus[i]
	c.throttled = false
	if len(c.queue) > 0 {
		g.stats.ThrottledTime += g.now - c.since
	}
	c.ran = 0
	g.pull(i)
}

// enqueue adds a request to the end of a CPU's queue.
func (g *Group) enqueue(i int, r request) {
	c := &g.cpus[i]
	c.queue = append(c.queue, r)
	if c.throttled && len(c.queue) == 1 {
		c.since = g.now
	}
	g.account(i)
}

// finish removes the first request from a CPU's queue.
func (g *Group) finish(i int) {
	c := &g.cpus[i]
	g.done = append(g.done, Done{ID: c.pop().id, At: g.now})
	g.account(i)
	g.pull(i)
	if len(c.queue) == 0 && !c.throttled {
		g.giveBack(c)
	}
}

// pull gives a CPU without requests a waiting request, from the CPU with the longest queue that is
// not throttled.
func (g *Group) pull(i int) {
	if g.cpus[i].throttled || len(g.cpus[i].queue) > 0 {
		return
	}
	from, at := -1, 0
	for j := range g.cpus {
		c := &g.cpus[j]
		if c.throttled || from >= 0 && len(c.queue) <= len(g.cpus[from].queue) {
			continue
		}
		for k := 1; k < len(c.queue); k++ {
			if !c.queue[k].pinned {
				from, at = j, k
				break
			}
		}
	}
	if from < 0 {
		return
	}
	q := g.cpus[from].queue
	r := q[at]
	g.cpus[from].queue = slices.Delete(q, at, at+1)
	g.enqueue(i, r)
}

// shortest returns the CPU with the shortest queue. Like the kernel, it ignores throttling.
func (g *Group) shortest() int {
	best := 0
	for i := range g.cpus {
		if len(g.cpus[i].queue) < len(g.cpus[best].queue) {
			best = i
		}
	}
	return best
}

// giveBack is __return_cfs_rq_runtime.
func (g *Group) giveBack(c *cpu) {
	more := c.local - g.machine.Keep
	if more <= 0 || g.fluid() || g.pool.limits.Quota == bandwidth.Unlimited {
		return
	}
	c.local -= more
	g.pool.runtime += more
	m := &g.machine
	if g.pool.runtime > m.Slice && len(g.throttled) > 0 && m.Slack > 0 && g.slack < 0 && g.period-g.now >= m.Slack+m.Margin {
		g.slack = g.now + m.Slack
	}
}
