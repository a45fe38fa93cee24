package burst

import (
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
)

// Budget limits the CPU time granted by writes to a cgroup's quota, period and burst. Each write
// refills the kernel's bucket and forgives debt, so a write that is repeated often enough lifts the
// limit. A write that a user without rights on the node can cause is therefore done only if
// [Budget.Pays].
//
// The budget gains what the quota in force grants and loses what the group used. A write is paid
// for if the budget holds what the group can use at once after it: a full bucket, and one quota
// more if the kernel's period ends right then. The group could have used that anyway. So, at any
// time since the budget was opened, whenever such writes happen,
//
//	used <= quota in force x time + the bucket that the group had then
//
// A group that is always throttled gains nothing: its writes wait until it uses less. CPU time
// granted by other writes is counted when it is used, and may put the budget into debt.
//
// Usage is read only when a write is to be decided. In between, the kernel keeps the group within
// its quota, so reading it more often would not change the result.
type Budget struct {
	tokens time.Duration // when usage was last read
	earned time.Duration // from then until at
	usage  time.Duration // as last read, < 0 if never
	at     time.Duration
	quota  time.Duration // in force since at, per period
	period time.Duration
	// free and bound record whether the group had no quota and had one, respectively, at some time
	// since usage was last read.
	free, bound bool
}

// creditTime is how long a group must run at its limit to use its credit: what the most expensive
// write costs, which has a period of one second and a burst of one quota.
const creditTime = 3 * bandwidth.MaxPeriod

// credit returns the maximum of a budget.
func (b *Budget) credit() time.Duration {
	if b.quota <= 0 {
		return 0
	}
	return scaled(b.quota, creditTime, b.period)
}

// OpenNew returns the budget of a group that was just created. It has no credit: pods that are
// created again and again would use it each time.
func OpenNew(now time.Duration, l bandwidth.Limits) Budget {
	b := Budget{at: now}
	b.InForce(now, l)
	return b
}

// OpenKnown returns the budget of a group that may have existed for some time. It has no credit,
// because the group's earlier usage is unknown.
func OpenKnown(now time.Duration, l bandwidth.Limits) Budget {
	b := Budget{at: now, usage: -1}
	b.InForce(now, l)
	return b
}

// Replaced records that the group was created again, at a restart of its container. Credit is
// dropped, because the final usage of the old group is unknown. Debt is kept.
func (b *Budget) Replaced(now time.Duration, l bandwidth.Limits) {
	*b = Budget{tokens: min(b.tokens, 0), at: now}
	b.InForce(now, l)
}

// InForce records the group's limits from now on.
func (b *Budget) InForce(now time.Duration, l bandwidth.Limits) {
	if passed := now - b.at; passed > 0 {
		if b.quota > 0 {
			b.earned = bounded(b.earned + scaled(b.quota, passed, b.period))
		}
		b.at = now
	}
	b.quota, b.period = l.Quota, l.Period
	if l.Quota > 0 {
		b.bound = true
	} else {
		b.free = true
	}
}

// Used records the CPU time that the group has used since it was created.
func (b *Budget) Used(now, usage time.Duration) {
	b.InForce(now, bandwidth.Limits{Quota: b.quota, Period: b.period})
	switch {
	case b.usage < 0 || b.free && b.bound: // unknown how much was used under a quota
		b.tokens = min(b.tokens, 0)
	case b.bound:
		b.tokens = bounded(b.tokens + b.earned - max(0, usage-b.usage))
		b.tokens = min(b.tokens, b.credit())
	}
	b.usage, b.earned = usage, 0
	b.free, b.bound = b.quota <= 0, b.quota > 0
}

// Pays reports whether the budget covered a write when usage was last recorded. quota and
// kernelBurst are the larger ones of before and after.
func (b *Budget) Pays(quota, kernelBurst time.Duration) bool {
	return b.usage >= 0 && b.tokens >= 2*quota+kernelBurst
}
