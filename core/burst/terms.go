package burst

import (
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
)

// highest is the most that a policy's percentages can say.
const highest = 10000

// longest is how many seconds of a raised quota can be saved up at most, also when the
// policy names no end.
const longest = 3600

// Figures of the policy that nobody had a reason to tune.
const (
	// useful is how long, in ticks, a bucket must last at full use for a raise.
	useful = 5
	// A raise by less than 1/worth of the limit is not worth its writes, unless the policy
	// allows no more.
	worth = 8
)

// terms are the amounts that follow from limit, policy and CPUs of a container.
type terms struct {
	quota, period, burst time.Duration
	// allowed is the highest quota by the policy, ceiling the highest that is of use: no
	// more than the CPUs, and no more than a full bucket pays for.
	allowed, ceiling time.Duration
	// least is the smallest raise that is worth its writes.
	least    time.Duration
	capacity time.Duration
	periods  time.Duration // in a tick, rounded up
}

// termsOf returns false when quota is not to be raised at all, and no terms when the
// container has no valid limit.
func termsOf(c *Container, tick time.Duration) (terms, bool) {
	q, p := c.Base.Quota, c.Base.Period
	if c.Base.Validate() != nil || q == bandwidth.Unlimited || q > cpuset.MaxCPUs*p {
		return terms{}, false
	}
	t := terms{quota: q, period: p, burst: max(c.Base.Burst, min(c.Present.Burst, c.Present.Quota, cpuset.MaxCPUs*p))}
	t.periods = max(1, (tick+p-1)/p)
	t.capacity = capacity(q, p, c.Policy)
	t.allowed = scaled(q, above(c.Policy.QuotaPercent)+100, 100)
	t.least = max(time.Microsecond, min(q/worth, t.allowed-q))
	// The largest quota u for which enough(u) <= capacity.
	part := 2 + (1+useful)*t.periods
	paid := (t.capacity - 2*t.burst + (1+useful)*t.periods*q) / part
	t.ceiling = min(t.allowed, time.Duration(c.CPUs.Len())*p, max(0, paid)).Truncate(time.Microsecond)
	return t, c.Policy.Mode.RaisesQuota()
}

// capacity is (quotaPercent/100 - 1) x limit x quotaBurstSeconds, and what burstPercent
// allows beyond the kernel's part.
func capacity(quota, period time.Duration, p Policy) time.Duration {
	seconds := longest
	if p.QuotaBurstSeconds != NoEnd {
		seconds = max(0, min(p.QuotaBurstSeconds, longest))
	}
	full := time.Duration(seconds) * time.Second
	saved := scaled(quota, full*above(p.QuotaPercent), period*100)
	return bounded(saved + scaled(quota, above(p.BurstPercent), 100))
}

// above is how much a percentage exceeds 100.
func above(percent int) time.Duration { return time.Duration(max(100, min(percent, highest)) - 100) }

// write is what one write can give away while quota may be as high as that.
func (t *terms) write(quota time.Duration) time.Duration { return max(quota, t.quota) + t.burst }

// excess is what a container can use above its limit in one tick.
func (t *terms) excess(quota time.Duration) time.Duration {
	return t.periods * max(0, quota-t.quota)
}

// reserve is what the bucket must hold for quota to stay raised: the write that lowers
// it, and what can be used until the next tick.
func (t *terms) reserve(quota time.Duration) time.Duration { return t.write(quota) + t.excess(quota) }

// enough is what the bucket must hold for quota to be raised: the write, some time of
// full use, and the reserve.
func (t *terms) enough(quota time.Duration) time.Duration {
	return t.write(quota) + useful*t.excess(quota) + t.reserve(quota)
}

// debt is what a container may have had above its limit before it was first seen: what
// an agent that was ended at the worst moment can have left behind.
func (t *terms) debt() time.Duration { return t.reserve(t.ceiling) + 2*t.quota }
