package burst

import (
	"time"

	"pinfold.dev/pinfold/core/cpuset"
)

const (
	// tickLength is the nominal time between two ticks.
	tickLength = 100 * time.Millisecond
	// A quota is lowered when the container has not needed more than its limit for the hold time,
	// which is also the minimum time between two raises. It starts as minHold. A raise within three
	// hold times of the previous one doubles it, up to maxHold, and one after more than six halves
	// it. Each raise is followed by at most one step down for lack of headroom and by the lowering,
	// so there are at most eleven writes per minute, and about three per 160 s for a container that
	// keeps alternating. Some programs follow their limit: the Go runtime stops the world when
	// quota/period, rounded, changes (adjustCgroupGOMAXPROCS in Go 1.26, at most once a second).
	minHold = 10 * time.Second
	maxHold = 160 * time.Second
	// A quota is lowered when headroom has been lacking for maxShort (see reclaim).
	maxShort = 300 * time.Millisecond
	// smoothing is the time constant of the mean idle time of CPUs and of the mean usage.
	smoothing = 400 * time.Millisecond
	// marginPercent of the CPUs are left idle, but at least a tenth of a CPU.
	marginPercent = 5
	// patience is how long a raise may take to become visible. Then it is abandoned.
	patience = time.Second
	// A quota stays raised without samples for up to unseen. The idle time of CPUs is valid for
	// stale.
	unseen = 2 * time.Second
	stale  = 3 * time.Second
	// A write without effect is retried after retryFirst, then twice that, and so on up to every
	// retryLast.
	retryFirst = time.Second
	retryLast  = 10 * time.Second
	// The account of a container that is no longer listed is kept for forget.
	forget = 10 * time.Minute
)

// Controller decides the quotas of a node's containers. It holds the state between two ticks.
type Controller struct {
	accounts map[string]*account
	swept    time.Duration // when old accounts were last removed

	idle      []rate // smoothed, by CPU number
	batch     rate   // smoothed: what batch work uses on batchCPUs
	batchCPUs cpuset.Set
	idleAt    time.Duration
	idleKnown bool // idle is valid

	// Reused memory:
	candidates  []candidate // by index in Tick.Containers
	apportioner apportioner
	claims      []claim
	claimant    []int // index into candidates, by claim
}

// candidate is one container during one tick.
type candidate struct {
	container *Container
	account   *account
	terms     terms
	reason    Reason
	was       time.Duration // account.want before the tick
	asks      bool          // should be raised, and the bucket pays for it
	set       int           // index into apportioner.sets, if raised or asking
}

// New returns a controller without containers.
func New() *Controller {
	return &Controller{accounts: map[string]*account{}}
}

// Step decides the quotas at one tick. It appends one decision per container of the tick to into,
// in the same order.
func (c *Controller) Step(t *Tick, into []Decision) []Decision {
	c.observeIdle(t)
	c.candidates = c.candidates[:0]
	for i := range t.Containers {
		c.candidates = append(c.candidates, c.candidate(&t.Containers[i], t.Now))
	}
	c.share(t.Now)
	for i := range c.candidates {
		into = append(into, c.candidates[i].decision(t.Now))
	}
	c.sweep(t.Now)
	return into
}

// candidate updates a container's account, lowers its quota if that does not depend on others, and
// determines whether it asks for more.
func (c *Controller) candidate(container *Container, now time.Duration) candidate {
	s := candidate{container: container}
	var on bool
	s.terms, on = termsOf(container)
	a := c.accounts[container.ID]
	if a == nil {
		// It starts in debt, so that restarting the agent or the container never gains CPU time.
		a = &account{seen: now, covered: now, sampled: now, tokens: -s.terms.debt(), present: container.Present.Quota, base: container.Base}
		c.accounts[container.ID] = a
	} else if s.terms.period > 0 {
		a.book(container, &s.terms, now)
	}
	s.account, s.was = a, a.want
	if s.terms.period == 0 { // no limit, so the bucket does not change
		a.seen, a.covered, a.sampled, a.present = now, now, now, container.Present.Quota
		s.lower(Off)
		return s
	}
	wanted := a.measure(container, &s.terms, now)
	changed := a.base.Quota != container.Base.Quota || a.base.Period != container.Base.Period
	a.base = container.Base
	switch {
	case !on:
		s.lower(Off)
	case a.want > 0:
		if s.reason = s.hold(changed, now); s.reason != Held {
			s.lower(s.reason)
		} else {
			s.asks = container.Sample.Throttled > 0 && s.mayRaise(now)
		}
	case wanted == Satisfied:
		s.reason = Satisfied
	default:
		s.reason = s.request(wanted, now)
		s.asks = s.reason == wanted
	}
	return s
}

// hold returns why a raised quota must be lowered regardless of other containers, or Held.
func (s *candidate) hold(changed bool, now time.Duration) Reason {
	a, t := s.account, &s.terms
	present := s.container.Present
	arrived := present.Quota == a.want && present.Period == t.period
	overruled := !arrived && (a.inForce || now-a.changed >= patience)
	a.inForce = a.inForce || arrived
	switch {
	case changed || a.want > t.allowed:
		return Changed
	case overruled:
		return Overruled
	case now-a.sampled >= unseen:
		return Unseen
	case a.tokens < t.reserve(a.want):
		return Spent
	case now-a.needed >= a.hold:
		return Idle
	}
	return Held
}

// request returns wanted if a container that is not raised may ask for more, regardless of other
// containers, and otherwise why not.
func (s *candidate) request(wanted Reason, now time.Duration) Reason {
	a, t := s.account, &s.terms
	switch {
	case t.ceiling-t.quota < t.minRaise:
		return TooSmall
	case a.tokens < t.enough(t.ceiling):
		return NoTokens
	case !a.mayRaise(now):
		return TooSoon
	}
	return wanted
}

// mayRaise reports whether a raised container may ask for still more.
func (s *candidate) mayRaise(now time.Duration) bool {
	a, t := s.account, &s.terms
	return t.ceiling-a.want >= t.minRaise && a.tokens >= t.enough(t.ceiling) && a.mayRaise(now)
}

func (s *candidate) lower(why Reason) {
	s.account.want, s.reason, s.asks = 0, why, false
}

// decision returns the decision after all containers were considered.
func (s *candidate) decision(now time.Duration) Decision {
	a := s.account
	d := Decision{Quota: s.container.Base.Quota, Reason: s.reason, Tokens: a.tokens}
	if a.want > 0 {
		d.Quota, d.Raised = a.want, true
	}
	present := s.container.Present
	if present.Quota == d.Quota && present.Period == s.container.Base.Period {
		if now >= a.retryAt+retryLast {
			a.retryWait = 0
		}
		return d
	}
	if a.want == s.was && now < a.retryAt {
		return d
	}
	d.Write = true
	a.retryWait = max(retryFirst, min(2*a.retryWait, retryLast))
	if a.want != s.was {
		a.retryWait = retryFirst
	}
	a.retryAt = now + a.retryWait
	return d
}

// observeIdle updates the smoothed idle time of the CPUs, and the smoothed usage of batch work.
func (c *Controller) observeIdle(t *Tick) {
	if t.Interval <= 0 {
		return
	}
	fresh := !c.idleKnown || t.Now-c.idleAt >= stale
	for cpu := range min(len(t.Idle), cpuset.MaxCPUs) {
		if cpu == len(c.idle) {
			c.idle = append(c.idle, 0)
		}
		idle := min(oneCPU, rateOf(t.Idle[cpu], t.Interval))
		if fresh {
			c.idle[cpu] = idle
		}
		c.idle[cpu] = c.idle[cpu].toward(idle, t.Interval, smoothing)
	}
	clear(c.idle[min(len(t.Idle), len(c.idle)):])
	batch := rateOf(t.Batch, t.Interval)
	if fresh {
		c.batch = batch
	}
	c.batch, c.batchCPUs = c.batch.toward(batch, t.Interval, smoothing), t.BatchCPUs
	c.idleAt, c.idleKnown = t.Now, true
}

// sweep removes the accounts of containers that have not been listed for long.
func (c *Controller) sweep(now time.Duration) {
	if now-c.swept < forget {
		return
	}
	c.swept = now
	for id, a := range c.accounts {
		if now-a.seen >= forget {
			delete(c.accounts, id)
		}
	}
}
