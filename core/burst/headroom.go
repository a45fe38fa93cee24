package burst

import (
	"time"

	"pinfold.dev/pinfold/core/cpuset"
)

// share divides the headroom among those whose quota is raised, and those that ask for it.
func (c *Controller) share(now time.Duration) {
	hungry, some := c.gather()
	if !some {
		return
	}
	c.apportioner.spread()
	c.rooms(now, func(s *candidate) bool { return s.was > 0 })
	c.reclaim(now)
	if hungry {
		c.rooms(now, func(s *candidate) bool { return s.was > 0 || s.hungry })
		c.makeWay(now)
		c.grant(now)
	}
}

// gather lists the CPU sets of all that are raised or ask to be.
func (c *Controller) gather() (hungry, some bool) {
	c.apportioner.sets = c.apportioner.sets[:0]
	for i := range c.candidates {
		s := &c.candidates[i]
		if s.was > 0 || s.hungry {
			s.set = c.apportioner.set(s.container.CPUs)
			some = true
		}
		hungry = hungry || s.hungry
	}
	return hungry, some
}

// rooms is what each pool has for raising quotas of the members beyond their limits:
// the time that its CPUs are idle or used by them, without the margin and their limits.
// Who uses how much of it makes no difference, so a raise does not take away its own
// ground, and since all means are smoothed alike, neither does it for a moment.
func (c *Controller) rooms(now time.Duration, member func(*candidate) bool) {
	d := &c.apportioner
	known := c.view && now-c.looked < stale
	for i := range d.pools {
		d.pools[i].room = 0
		if known {
			d.pools[i].room = c.idleOf(d.pools[i].cpus) - c.margin(d.pools[i].cpus)
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

func (c *Controller) idleOf(cpus cpuset.Set) (sum Rate) {
	for cpu := range cpus.All() {
		if int(cpu) < len(c.idle) {
			sum += c.idle[cpu]
		}
	}
	return sum
}

func (c *Controller) margin(cpus cpuset.Set) Rate {
	return max(OneCPU/10, Rate(cpus.Len()*c.tuning.MarginPercent)*OneCPU/100)
}

// reclaim lowers raised quotas for which there is no headroom any more: once to what
// there is, then to the limit. Within the last quarter a quota is left as it is, so that
// noise does not move it.
func (c *Controller) reclaim(now time.Duration) {
	c.claim(func(s *candidate) (Rate, Rate) { return 0, s.extra() })
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
		if now-a.shortFrom < c.tuning.Shortage {
			continue
		}
		if (a.shrunk && !a.mayRaise(now)) || !s.shrink(fair, &c.tuning, now) {
			s.lower(Shortage)
		}
	}
}

// makeWay lowers raised quotas for the sake of newcomers, to what is everybody's share.
func (c *Controller) makeWay(now time.Duration) {
	c.claim(func(s *candidate) (Rate, Rate) {
		if s.hungry {
			return 0, s.terms.rateOf(s.terms.ceiling - s.terms.quota)
		}
		return 0, s.extra()
	})
	for i, at := range c.claimant {
		s, fair := &c.candidates[at], c.claims[i].grant
		if tooMuch(s.extra(), fair) && s.account.mayRaise(now) && s.shrink(fair, &c.tuning, now) {
			s.hungry = false
		}
	}
}

// grant raises quotas out of what is left.
func (c *Controller) grant(now time.Duration) {
	c.claim(func(s *candidate) (Rate, Rate) {
		if !s.hungry {
			return s.extra(), 0
		}
		return s.extra(), s.terms.rateOf(s.terms.ceiling - max(s.account.want, s.terms.quota))
	})
	for i, at := range c.claimant {
		s := &c.candidates[at]
		if !s.hungry {
			continue
		}
		a, t := s.account, &s.terms
		quota := max(a.want, t.quota) + c.claims[i].grant.in(t.period).Truncate(time.Microsecond)
		switch {
		case quota-max(a.want, t.quota) >= t.least:
			if a.want > 0 {
				s.reason = Throttled
			}
			a.space(&c.tuning, now)
			a.set(quota, now)
			a.needed = now
		case a.want == 0:
			s.reason = NoHeadroom
		}
	}
}

// claim apportions the rooms among raised and hungry containers. The function says what
// each keeps whatever the others want, and what it wants besides.
func (c *Controller) claim(wish func(*candidate) (keeps, wants Rate)) {
	d := &c.apportioner
	for i := range d.pools {
		d.pools[i].left = d.pools[i].room
	}
	c.claims, c.claimant = c.claims[:0], c.claimant[:0]
	for i := range c.candidates {
		s := &c.candidates[i]
		if s.account.want == 0 && !s.hungry {
			continue
		}
		keeps, wants := wish(s)
		d.take(s.set, keeps)
		if wants > 0 {
			c.claims = append(c.claims, claim{set: s.set, weight: max(1, s.terms.rate()), most: wants})
			c.claimant = append(c.claimant, i)
		}
	}
	d.apportion(c.claims)
}

// tooMuch reports whether what somebody has exceeds his share by more than a third.
func tooMuch(has, fair Rate) bool { return 3*has > 4*fair }

// rate is the limit.
func (t *terms) rate() Rate { return t.rateOf(t.quota) }

func (t *terms) rateOf(quota time.Duration) Rate { return rateOf(quota, t.period) }

// extra is how much more than its limit a container may use.
func (s *candidate) extra() Rate {
	return s.terms.rateOf(max(0, s.account.want-s.terms.quota))
}

// shrink lowers a raised quota to a smaller raised one, when that is worth a write.
func (s *candidate) shrink(extra Rate, tuning *Tuning, now time.Duration) bool {
	a, t := s.account, &s.terms
	quota := t.quota + extra.in(t.period).Truncate(time.Microsecond)
	if quota-t.quota < t.least || a.tokens < t.write(a.want)+t.reserve(quota) {
		return false
	}
	if a.mayRaise(now) {
		a.space(tuning, now)
	}
	a.set(quota, now)
	a.shrunk, s.reason = true, Shared
	return true
}
