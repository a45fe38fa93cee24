package burst

import (
	"time"

	"pinfold.dev/pinfold/core/cpuset"
)

// share divides the headroom among the containers that are raised or ask to be, in proportion to
// their limits: see apportioner.apportion. A container that newly asks gets what is left. Others
// are lowered to their share in its favour only after their hold time.
func (c *Controller) share(now time.Duration) {
	asks := c.gather()
	if len(c.apportioner.sets) == 0 {
		return
	}
	c.apportioner.spread()
	c.rooms(now, func(s *candidate) bool { return s.was > 0 })
	c.reclaim(now)
	if asks {
		c.rooms(now, func(s *candidate) bool { return s.was > 0 || s.asks })
		c.makeWay(now)
		c.grant(now)
	}
}

// gather lists the CPU sets of all containers that are raised or ask to be, and reports whether any
// asks.
func (c *Controller) gather() (asks bool) {
	c.apportioner.sets = c.apportioner.sets[:0]
	for i := range c.candidates {
		s := &c.candidates[i]
		if s.was > 0 || s.asks {
			s.set = c.apportioner.set(s.container.CPUs)
		}
		asks = asks || s.asks
	}
	return asks
}

// rooms computes the headroom of each pool for the member containers: the time that its CPUs are
// idle or used by members, less the margin and the members' limits. It does not matter who of them
// uses the time, so a raise does not remove its own headroom, not even temporarily, because all
// means are smoothed alike. Batch work with idle priority counts as idle, because it gives way at
// once.
func (c *Controller) rooms(now time.Duration, member func(*candidate) bool) {
	d := &c.apportioner
	known := c.idleKnown && now-c.idleAt < stale
	for i := range d.pools {
		d.pools[i].room = 0
		if known {
			d.pools[i].room = c.idleOf(d.pools[i].cpus) - max(oneCPU/10, rate(d.pools[i].cpus.Len()*marginPercent)*oneCPU/100)
		}
	}
	for i := range c.candidates {
		s := &c.candidates[i]
		if !known || !member(s) {
			continue
		}
		for p := range d.pools {
			if d.within[p*len(d.sets)+s.set] {
				d.pools[p].room += s.account.mean - s.terms.rate()
			}
		}
	}
}

// idleOf returns how much of a set of CPUs is idle or used by batch work. On which of its CPUs
// batch work ran is unknown: at least the part counts that the other ones were not busy enough for.
func (c *Controller) idleOf(cpus cpuset.Set) rate {
	idle, _ := c.sum(cpus)
	_, elsewhere := c.sum(c.batchCPUs.Difference(cpus))
	return min(idle+max(0, c.batch-elsewhere), rate(cpus.Len())*oneCPU)
}

// sum returns for how long the CPUs of a set are idle and busy.
func (c *Controller) sum(cpus cpuset.Set) (idle, busy rate) {
	for cpu := range cpus.All() {
		if int(cpu) < len(c.idle) {
			idle += c.idle[cpu]
		}
	}
	return idle, rate(cpus.Len())*oneCPU - idle
}

// reclaim lowers raised quotas that lack headroom for maxShort: first to their share, and to the
// limit if that happens again within the hold time, or if the share is not worth a write or the
// bucket does not cover one. A quota up to a third above its share is kept, so that noise does not
// change it.
func (c *Controller) reclaim(now time.Duration) {
	c.claim(func(s *candidate) (rate, rate) { return 0, s.extra() })
	for i, at := range c.claimant {
		s, fair := &c.candidates[at], c.claims[i].grant
		a := s.account
		if !tooMuch(s.extra(), fair) {
			a.short = false
			continue
		}
		if !a.short {
			a.short, a.shortFrom = true, now
		}
		if now-a.shortFrom < maxShort {
			continue
		}
		if (a.shrunk && !a.mayRaise(now)) || !s.shrink(fair, now) {
			s.lower(Shortage)
		}
	}
}

// makeWay lowers raised quotas to their share in favour of newly asking containers.
func (c *Controller) makeWay(now time.Duration) {
	c.claim(func(s *candidate) (rate, rate) {
		if s.asks {
			return 0, s.terms.rateOf(s.terms.ceiling - s.terms.quota)
		}
		return 0, s.extra()
	})
	for i, at := range c.claimant {
		s, fair := &c.candidates[at], c.claims[i].grant
		if tooMuch(s.extra(), fair) && s.account.mayRaise(now) && s.shrink(fair, now) {
			s.asks = false
		}
	}
}

// grant raises quotas from the headroom that is left.
func (c *Controller) grant(now time.Duration) {
	c.claim(func(s *candidate) (rate, rate) {
		if !s.asks {
			return s.extra(), 0
		}
		return s.extra(), s.terms.rateOf(s.terms.ceiling - max(s.account.want, s.terms.quota))
	})
	for i, at := range c.claimant {
		s := &c.candidates[at]
		if !s.asks {
			continue
		}
		a, t := s.account, &s.terms
		quota := max(a.want, t.quota) + c.claims[i].grant.in(t.period).Truncate(time.Microsecond)
		switch {
		case quota-max(a.want, t.quota) >= t.minRaise:
			if a.want > 0 {
				s.reason = Throttled
			}
			a.startHold(now)
			a.set(quota, now)
			a.needed = now
		case a.want == 0:
			s.reason = NoHeadroom
		}
	}
}

// claim divides the headroom among raised and asking containers. wish returns what each container
// keeps regardless of others, and how much more it wants.
func (c *Controller) claim(wish func(*candidate) (keeps, wants rate)) {
	d := &c.apportioner
	for i := range d.pools {
		d.pools[i].remaining = d.pools[i].room
	}
	c.claims, c.claimant = c.claims[:0], c.claimant[:0]
	for i := range c.candidates {
		s := &c.candidates[i]
		if s.account.want == 0 && !s.asks {
			continue
		}
		keeps, wants := wish(s)
		d.take(s.set, keeps)
		if wants > 0 {
			c.claims = append(c.claims, claim{set: s.set, weight: max(1, s.terms.rate()), max: wants})
			c.claimant = append(c.claimant, i)
		}
	}
	d.apportion(c.claims)
}

// tooMuch reports whether a container may use more than four thirds of its share.
func tooMuch(extra, fair rate) bool { return 3*extra > 4*fair }

// rate returns the limit.
func (t *terms) rate() rate { return t.rateOf(t.quota) }

func (t *terms) rateOf(quota time.Duration) rate { return rateOf(quota, t.period) }

// extra returns how much more than its limit a container may use.
func (s *candidate) extra() rate {
	return s.terms.rateOf(max(0, s.account.want-s.terms.quota))
}

// shrink lowers a raised quota to a smaller raised one, if that is worth a write.
func (s *candidate) shrink(extra rate, now time.Duration) bool {
	a, t := s.account, &s.terms
	quota := t.quota + extra.in(t.period).Truncate(time.Microsecond)
	if quota-t.quota < t.minRaise || a.tokens < t.write(a.want)+t.reserve(quota) {
		return false
	}
	if a.mayRaise(now) {
		a.startHold(now)
	}
	a.set(quota, now)
	a.shrunk, s.reason = true, Shared
	return true
}
