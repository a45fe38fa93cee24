package burst

import (
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
)

// account is what is remembered of one container.
type account struct {
	seen    time.Duration // the last tick that had it
	covered time.Duration // up to when its samples reach
	sampled time.Duration // the tick of the last sample
	tokens  time.Duration
	present time.Duration // the quota in force at the last tick

	base    bandwidth.Limits
	want    time.Duration // the raised quota, 0 for that of the base
	inForce bool          // want has been seen in the control group
	changed time.Duration // when want was set to a raised value for the last time
	raised  time.Duration // the same, but for one that headroom made smaller soon after
	shrunk  bool          // that has happened since
	settled bool          // raised has a meaning
	hold    time.Duration

	usage, interval time.Duration // of the period that is not complete yet
	need            time.Duration // CPU time used in the last complete period
	needed          time.Duration // when more than what fits the base was last needed
	mean            Rate          // smoothed usage
	known           bool          // mean has a meaning

	short     bool // headroom has been missing
	shortFrom time.Duration

	retryAt, retryWait time.Duration
}

// open is a new account. It begins in debt, because what the container had before is
// not known.
func open(c *Container, t *terms, now time.Duration) account {
	return account{seen: now, covered: now, sampled: now, tokens: -t.debt(), present: c.Present.Quota, base: c.Base}
}

// book adds what the container gained and lost since the last tick.
func (a *account) book(c *Container, t *terms, tick, now time.Duration) {
	if c.Writes > 0 {
		quota := max(t.quota, a.want, a.present, c.Present.Quota)
		a.tokens -= time.Duration(mulDiv(int64(c.Writes), int64(bounded(quota)+t.burst), 1))
	}
	if s := &c.Sample; s.Interval > 0 {
		a.tokens += scaled(t.quota, s.Interval, t.period) - bounded(max(0, s.Usage))
		a.covered += s.Interval
		a.sampled = now
	}
	a.bookGap(c, t, tick, now)
	a.tokens = max(-most, min(a.tokens, t.capacity))
	a.seen, a.present = now, c.Present.Quota
}

// bookGap charges time that no sample covers with all that could be used in it. A gap
// shorter than a tick may be no gap: a sample is taken somewhat before its tick.
func (a *account) bookGap(c *Container, t *terms, tick, now time.Duration) {
	if c.Sample.Interval <= 0 {
		return // the next sample may cover it
	}
	if gap := now - a.covered; gap > tick {
		a.tokens -= scaled(max(0, max(a.want, a.present)-t.quota), gap, t.period)
		a.covered = now
	}
	a.covered = min(a.covered, now)
}

// measure takes in how much was needed; it says whether quota should be raised. A burst may
// fall into two samples, so two periods are looked at together to find out that nothing
// is needed any more.
func (a *account) measure(c *Container, t *terms, tuning *Tuning, now time.Duration) (Reason, bool) {
	s := &c.Sample
	if s.Interval <= 0 {
		return Calm, false
	}
	used := rateOf(s.Usage, s.Interval)
	if !a.known {
		a.mean, a.known = used, true
	}
	a.mean = a.mean.toward(used, s.Interval, tuning.Smoothing)
	a.usage = bounded(a.usage + bounded(max(0, s.Usage)))
	a.interval = bounded(a.interval + bounded(s.Interval))
	complete := a.interval >= t.period-t.period/8
	var two time.Duration // needed in this period and the last one
	if complete {
		two = a.need
		a.need = a.usage / max(1, a.interval/t.period)
		two += a.need
		a.usage, a.interval = 0, 0
	}
	usual := t.quota + max(0, c.Base.Burst)
	if s.Throttled > 0 || two > usual*3/4 {
		a.needed = now
	}
	switch {
	case s.Throttled > 0:
		return Throttled, true
	case complete && a.need >= usual*9/10:
		return NearQuota, true
	}
	return Calm, false
}

// mayRaise reports whether the last raise is long enough ago.
func (a *account) mayRaise(now time.Duration) bool {
	return !a.settled || now-a.raised >= a.hold
}

// space notes a raise, or what counts as one. The hold grows when it follows soon on
// another, and shrinks when it does not.
func (a *account) space(tuning *Tuning, now time.Duration) {
	switch since := now - a.raised; {
	case !a.settled:
		a.hold = tuning.MinHold
	case since < 3*a.hold:
		a.hold = min(2*a.hold, tuning.MaxHold)
	case since > 6*a.hold:
		a.hold = max(a.hold/2, tuning.MinHold)
	}
	a.raised, a.settled, a.shrunk = now, true, false
}

// set notes that a raised quota is wanted.
func (a *account) set(quota, now time.Duration) {
	a.want, a.inForce, a.short, a.changed = quota, false, false, now
}
