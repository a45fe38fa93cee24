package burst

import (
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
)

const (
	// maxPercent is the maximum of a policy's percentages.
	maxPercent = 10000
	// maxSeconds of a raised quota can be saved, also with NoEnd.
	maxSeconds = 3600
	// usefulTicks is for how many ticks of full use a bucket must last to raise the quota.
	usefulTicks = 5
	// A raise by less than 1/minRaiseDivisor of the limit is not worth its writes, unless the
	// policy allows no more.
	minRaiseDivisor = 8
)

// terms are the amounts that follow from a container's limit, policy and CPUs.
type terms struct {
	quota, period, burst time.Duration
	// allowed is the highest quota that the policy allows. ceiling is the highest useful one: at
	// most the number of CPUs, and what a full bucket pays for.
	allowed, ceiling time.Duration
	minRaise         time.Duration // smaller raises are not worth their writes
	capacity         time.Duration // of the bucket
	periods          time.Duration // in a tick, rounded up
}

// termsOf returns the terms of a container, which are zero if it has no valid limit, and whether
// its policy allows to raise the quota.
func termsOf(c *Container) (terms, bool) {
	q, p := c.Base.Quota, c.Base.Period
	if c.Base.Validate() != nil || q == bandwidth.Unlimited || q > cpuset.MaxCPUs*p {
		return terms{}, false
	}
	t := terms{quota: q, period: p, burst: max(c.Base.Burst, min(c.Present.Burst, c.Present.Quota, cpuset.MaxCPUs*p))}
	t.periods = max(1, (tickLength+p-1)/p)
	t.capacity = capacity(q, p, c.Policy)
	t.allowed = scaled(q, above(c.Policy.QuotaPercent)+100, 100)
	t.minRaise = max(time.Microsecond, min(q/minRaiseDivisor, t.allowed-q))
	// The largest quota u with enough(u) <= capacity.
	part := 2 + (1+usefulTicks)*t.periods
	paid := (t.capacity - 2*t.burst + (1+usefulTicks)*t.periods*q) / part
	t.ceiling = min(t.allowed, time.Duration(c.CPUs.Len())*p, max(0, paid)).Truncate(time.Microsecond)
	return t, c.Policy.Mode.Uses().Quota
}

// capacity returns that of the bucket,
//
//	(quotaPercent/100 - 1) x limit x quotaBurstSeconds + (burstPercent/100 - 1) x quota
//
// where each term is at least 0: what a quota raised to quotaPercent uses beyond the limit in
// quotaBurstSeconds, and what burstPercent grants beyond the 100 percent that the kernel serves.
func capacity(quota, period time.Duration, p Policy) time.Duration {
	seconds := maxSeconds
	if p.QuotaBurstSeconds != NoEnd {
		seconds = max(0, min(p.QuotaBurstSeconds, maxSeconds))
	}
	full := time.Duration(seconds) * time.Second
	saved := scaled(quota, full*above(p.QuotaPercent), period*100)
	return bounded(saved + scaled(quota, above(p.BurstPercent), 100))
}

// above returns by how much a percentage exceeds 100.
func above(percent int) time.Duration { return time.Duration(max(100, min(percent, maxPercent)) - 100) }

// write returns the CPU time that one write may grant while the quota is at most the given one.
func (t *terms) write(quota time.Duration) time.Duration { return max(quota, t.quota) + t.burst }

// excess returns what a container can use above its limit in one tick.
func (t *terms) excess(quota time.Duration) time.Duration {
	return t.periods * max(0, quota-t.quota)
}

// reserve returns what the bucket must hold for a quota to stay raised: the cost of the write that
// lowers it, plus what can be used until the next tick.
func (t *terms) reserve(quota time.Duration) time.Duration { return t.write(quota) + t.excess(quota) }

// enough returns what the bucket must hold for a quota to be raised: the cost of the write, some
// ticks of full use, and the reserve.
func (t *terms) enough(quota time.Duration) time.Duration {
	return t.write(quota) + usefulTicks*t.excess(quota) + t.reserve(quota)
}

// debt returns the most that a container can have received above its limit before it was first
// seen, from an agent that was killed at the worst moment.
func (t *terms) debt() time.Duration { return t.reserve(t.ceiling) + 2*t.quota }

// Slack returns the constant in used <= limit x time + constant, which holds at any time since a
// container was first seen. late is the longest time for which a quota was raised without
// supervision: from a tick with a sample in which it stayed raised until the next decision was in
// force, or until now.
//
// If late is within two ticks (of 100 ms), the constant is two quotas and the kernel's burst, the
// same as without raising. A later tick adds what the raised quota grants in that time, once,
// because it is repaid before the next raise. Each write by others adds the time that it grants,
// immediately and at the next refill, and the time granted by the write that reverts it.
func Slack(base bandwidth.Limits, p Policy, late time.Duration) time.Duration {
	t, on := termsOf(&Container{Base: base, Policy: p, Present: base})
	slack := 2*base.Quota + base.Burst
	if on {
		slack += scaled(t.allowed-t.quota, max(0, late-2*t.periods*t.period), t.period)
	}
	return slack
}
