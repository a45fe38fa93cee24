package bandwidthtest

import (
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
)

// In the ideal fluid CPUs hold nothing between events: what was dealt to those that
// run is gathered before something happens, and dealt anew after it.

// gather puts back into the bucket what CPUs have not used.
func (g *Group) gather() {
	if !g.fluid() || g.pool.limits.Quota == bandwidth.Unlimited {
		return
	}
	for i := range g.cpus {
		g.pool.runtime += g.cpus[i].local
		g.cpus[i].local = 0
	}
}

// deal gives each CPU that runs the same share of the bucket, the first ones a
// nanosecond more when it does not divide. A CPU that gets nothing is throttled.
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
