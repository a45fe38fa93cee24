package bandwidthtest

import (
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
)

// pool is what the kernel holds per group (struct cfs_bandwidth): the CPU time that
// is left, and the timer. A group without quota takes nothing from it.
type pool struct {
	limits  bandwidth.Limits
	runtime time.Duration // 0 <= runtime <= quota + burst
	snap    time.Duration // runtime just after the last refill
	active  bool          // the timer runs
	idle    bool          // nothing was taken since the last tick
}

// fullPool is that of a group which has been idle for some periods.
func fullPool(l bandwidth.Limits) pool {
	full := max(l.Quota, 0) + l.Burst
	return pool{limits: l, runtime: full, snap: full, idle: true}
}

// take gives out up to want, and starts the timer.
func (p *pool) take(want time.Duration) time.Duration {
	p.active = true
	got := min(want, p.runtime)
	if got > 0 {
		p.runtime -= got
		p.idle = false
	}
	return got
}

// refill is __refill_cfs_bandwidth_runtime: the quota is added first, then what was
// taken beyond it since the last refill is counted as burst, then what is more than
// the bucket holds is lost.
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

// write is tg_set_cfs_bandwidth, without what it does to CPUs.
func (p *pool) write(l bandwidth.Limits, s *Stats) {
	p.limits = l
	p.refill(s)
	if l.Quota != bandwidth.Unlimited {
		p.active = true
	}
}

// tick is do_sched_cfs_period_timer up to where it hands out runtime. It refills
// before it finds out that there was nothing to do, so that a bucket is full when
// the timer stops: two refills fill it, since burst <= quota.
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
	case throttled: // by what was taken: not idle
		s.Throttled++
	case p.idle:
		p.active = false
	default:
		p.idle = true
	}
}
