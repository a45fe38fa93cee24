package burst

import (
	"time"

	"pinfold.dev/pinfold/core/cpuset"
)

// Figures of the controller that nobody had a reason to tune.
const (
	// patience is how long a write may take to be seen.
	patience = time.Second
	// unseen is how long a quota stays raised without samples, and stale how long
	// the idle time of CPUs is believed.
	unseen = 2 * time.Second
	stale  = 3 * time.Second
	// A write that had no effect is tried again after retryFirst, then after twice that,
	// at last every retryLast.
	retryFirst = time.Second
	retryLast  = 10 * time.Second
	// forget is how long the account of a container that is not named any more is kept.
	forget = 10 * time.Minute
)

// Controller decides the quotas of a node's containers. It holds only the state between two ticks;
// it has no clock and does no I/O.
type Controller struct {
	tuning   Tuning
	accounts map[string]*account
	swept    time.Duration // when forgotten accounts were last looked for

	idle   []Rate // smoothed, by CPU number
	looked time.Duration
	view   bool // idle has a meaning

	candidates  []candidate // scratch: of Tick.Containers
	apportioner apportioner
	claims      []claim
	claimant    []int // scratch: index into candidates, by claim
}

// candidate is one container during one tick.
type candidate struct {
	container *Container
	account   *account
	terms     terms
	reason    Reason
	was       time.Duration // account.want at the beginning of the tick
	hungry    bool          // asks for quota to be raised, and the bucket pays for it
	set       int           // index into apportioner.sets when raised or hungry
}

// New returns a controller without containers.
func New(tuning Tuning) *Controller {
	return &Controller{tuning: tuning.withDefaults(), accounts: map[string]*account{}}
}

// Step decides one tick. It appends one decision per container of the tick to into, in the same
// order.
func (c *Controller) Step(t *Tick, into []Decision) []Decision {
	c.look(t)
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

// candidate books a container's tick, lowers its quota where that needs no look at others,
// and finds out whether it asks for more.
func (c *Controller) candidate(container *Container, now time.Duration) candidate {
	s := candidate{container: container}
	var on bool
	s.terms, on = termsOf(container, c.tuning.Tick)
	a := c.accounts[container.ID]
	if a == nil {
		a = new(account)
		*a = open(container, &s.terms, now)
		c.accounts[container.ID] = a
	} else if s.terms.period > 0 {
		a.book(container, &s.terms, c.tuning.Tick, now)
	}
	s.account, s.was = a, a.want
	if s.terms.period == 0 { // no limit: nothing is gained and nothing is spent
		a.seen, a.covered, a.sampled, a.present = now, now, now, container.Present.Quota
		s.lower(Off)
		return s
	}
	wanted, more := a.measure(container, &s.terms, &c.tuning, now)
	s.reason = wanted
	changed := a.base.Quota != container.Base.Quota || a.base.Period != container.Base.Period
	a.base = container.Base
	switch {
	case !on:
		s.lower(Off)
	case a.want > 0:
		if why, must := s.mustLower(changed, now); must {
			s.lower(why)
		} else {
			s.reason = Held
			s.hungry = container.Sample.Throttled > 0 && s.mayRaise(now)
		}
	case more:
		s.reason, s.hungry = s.request(wanted, now)
	default:
		s.reason = Calm
	}
	return s
}

// mustLower says why a raised quota cannot stay, whatever the others need.
func (s *candidate) mustLower(changed bool, now time.Duration) (Reason, bool) {
	a, t := s.account, &s.terms
	present := s.container.Present
	arrived := present.Quota == a.want && present.Period == t.period
	overruled := !arrived && (a.inForce || now-a.changed >= patience)
	a.inForce = a.inForce || arrived
	switch {
	case changed || a.want > t.allowed:
		return Changed, true
	case overruled:
		return Overruled, true
	case now-a.sampled >= unseen:
		return Unseen, true
	case a.tokens < t.reserve(a.want):
		return Spent, true
	case now-a.needed >= a.hold:
		return Idle, true
	}
	return Held, false
}

// request says whether a container whose quota is that of the base may have more, as far
// as that is its own affair.
func (s *candidate) request(wanted Reason, now time.Duration) (Reason, bool) {
	a, t := s.account, &s.terms
	switch {
	case t.ceiling-t.quota < t.least:
		return TooSmall, false
	case a.tokens < t.enough(t.ceiling):
		return NoTokens, false
	case !a.mayRaise(now):
		return TooSoon, false
	}
	return wanted, true
}

// mayRaise is the same of a container whose quota is raised.
func (s *candidate) mayRaise(now time.Duration) bool {
	a, t := s.account, &s.terms
	return t.ceiling-a.want >= t.least && a.tokens >= t.enough(t.ceiling) && a.mayRaise(now)
}

func (s *candidate) lower(why Reason) {
	s.account.want, s.reason, s.hungry = 0, why, false
}

// decision is what comes out, once all is decided.
func (s *candidate) decision(now time.Duration) Decision {
	a := s.account
	d := Decision{Quota: s.container.Base.Quota, Reason: s.reason, Tokens: a.tokens, Capacity: s.terms.capacity}
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

// look takes in how idle the CPUs are.
func (c *Controller) look(t *Tick) {
	if t.Interval <= 0 {
		return
	}
	fresh := !c.view || t.Now-c.looked >= stale
	for cpu := range min(len(t.Idle), cpuset.MaxCPUs) {
		if cpu == len(c.idle) {
			c.idle = append(c.idle, 0)
		}
		idle := min(OneCPU, rateOf(t.Idle[cpu], t.Interval))
		if fresh {
			c.idle[cpu] = idle
		}
		c.idle[cpu] = c.idle[cpu].toward(idle, t.Interval, c.tuning.Smoothing)
	}
	clear(c.idle[min(len(t.Idle), len(c.idle)):])
	c.looked, c.view = t.Now, true
}

// sweep forgets containers that have not been named for long.
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
