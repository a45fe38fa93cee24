package burst

import (
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
)

// account is the state of one container between ticks.
type account struct {
	seen    time.Duration // its last tick
	covered time.Duration // the time up to which samples cover its usage
	sampled time.Duration // the tick of its last sample
	// tokens is the CPU time in the bucket: it gains limit x time and loses what was used and what
	// writes may have granted (see book). Invariant: tokens <= terms.capacity.
	tokens  time.Duration
	present time.Duration // the quota in force at its last tick

	base       bandwidth.Limits
	want       time.Duration // the raised quota, 0 if not raised
	inForce    bool          // the cgroup has had the quota want
	changed    time.Duration // when want was last set to a raised quota
	raised     time.Duration // when the hold time began: at a raise, or at a reduction long after it
	shrunk     bool          // reduced to a share since then
	everRaised bool          // raised is valid
	hold       time.Duration // see minHold

	usage, interval time.Duration // of the incomplete period
	need            time.Duration // CPU time used in the last complete period
	needed          time.Duration // when more than the limit was last needed
	mean            rate          // smoothed usage
	meanKnown       bool          // mean is valid

	short     bool          // lacks headroom
	shortFrom time.Duration // since when

	retryAt, retryWait time.Duration
}

// book adds what the container gained and subtracts what it used since the last tick.
//
// Each write of quota, period or burst refills the kernel's own bucket, even if the value does not
// change. It is charged as one quota (the largest of those before, after and of the limit) plus the
// kernel burst, no matter who wrote, and also if it failed or its outcome is unknown. CPU time that
// the refill granted is charged again when it is used. This is deliberate: the charge does not wait
// for a sample, and writes become expensive for the container that causes them.
func (a *account) book(c *Container, t *terms, now time.Duration) {
	if c.Writes > 0 {
		quota := max(t.quota, a.want, a.present, c.Present.Quota)
		a.tokens -= time.Duration(mulDiv(int64(c.Writes), int64(bounded(quota)+t.burst), 1))
	}
	if s := &c.Sample; s.Interval > 0 {
		a.tokens += scaled(t.quota, s.Interval, t.period) - bounded(max(0, s.Usage))
		a.covered += s.Interval
		a.sampled = now
	}
	a.bookGap(c, t, now)
	a.tokens = max(-maxAmount, min(a.tokens, t.capacity))
	a.seen, a.present = now, c.Present.Quota
}

// bookGap charges time that no sample covers with the most that could be used in it. A gap shorter
// than a tick is ignored, because a sample is taken somewhat before its tick.
func (a *account) bookGap(c *Container, t *terms, now time.Duration) {
	if c.Sample.Interval <= 0 {
		return // the next sample may cover it
	}
	if gap := now - a.covered; gap > tickLength {
		a.tokens -= scaled(max(0, max(a.want, a.present)-t.quota), gap, t.period)
		a.covered = now
	}
	a.covered = min(a.covered, now)
}

// measure updates the container's need. It returns the reason to raise the quota, or Satisfied. The
// peak counts, not the mean: a container that is mostly idle and exceeds its limit every half
// second still needs more. A burst may straddle two samples, so only two periods together show that
// nothing more is needed.
func (a *account) measure(c *Container, t *terms, now time.Duration) Reason {
	s := &c.Sample
	if s.Interval <= 0 {
		return Satisfied
	}
	used := rateOf(s.Usage, s.Interval)
	if !a.meanKnown {
		a.mean, a.meanKnown = used, true
	}
	a.mean = a.mean.toward(used, s.Interval, smoothing)
	a.usage = bounded(a.usage + bounded(max(0, s.Usage)))
	a.interval = bounded(a.interval + bounded(s.Interval))
	complete := a.interval >= t.period-t.period/8
	var two time.Duration // need of this period and the last one
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
		return Throttled
	case complete && a.need >= usual*9/10:
		return NearQuota
	}
	return Satisfied
}

// mayRaise reports whether the last raise was long enough ago.
func (a *account) mayRaise(now time.Duration) bool {
	return !a.everRaised || now-a.raised >= a.hold
}

// startHold starts a hold time. It is longer soon after another one, and shorter long after; see
// minHold.
func (a *account) startHold(now time.Duration) {
	switch since := now - a.raised; {
	case !a.everRaised:
		a.hold = minHold
	case since < 3*a.hold:
		a.hold = min(2*a.hold, maxHold)
	case since > 6*a.hold:
		a.hold = max(a.hold/2, minHold)
	}
	a.raised, a.everRaised, a.shrunk = now, true, false
}

// set records a raised quota.
func (a *account) set(quota, now time.Duration) {
	a.want, a.inForce, a.short, a.changed = quota, false, false, now
}
