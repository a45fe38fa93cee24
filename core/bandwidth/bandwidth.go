// Package bandwidth defines the settings of the kernel's CFS bandwidth controller for one cgroup
// (quota, period and burst; [Limits]) and computes when a demand for CPU time is throttled
// ([NextDebt]):
//
//	limits := bandwidth.Limits{Quota: 200 * time.Millisecond, Period: 100 * time.Millisecond}
//	debt = bandwidth.NextDebt(debt, demand, limits.Quota) // once per period
//
// Package bandwidthtest contains complete models of the controller for tests.
package bandwidth

import (
	"fmt"
	"time"
)

// Unlimited is the quota of a group without a limit.
const Unlimited time.Duration = -1

// The bounds in kernel/sched/core.c of Linux 6.18 (min_cfs_quota_period, max_cfs_quota_period,
// max_cfs_runtime).
const (
	MinQuota  = time.Millisecond
	MinPeriod = time.Millisecond
	MaxPeriod = time.Second
	MaxQuota  = (1<<44 - 1) * time.Microsecond // of quota plus burst
)

// Limits are a group's bandwidth settings in the kernel.
type Limits struct {
	Quota  time.Duration // CPU time per period, or Unlimited
	Period time.Duration // 1 ms to 1 s
	Burst  time.Duration // maximum of unused CPU time that is saved; 0 <= Burst <= Quota unless unlimited
}

// WithoutBurst returns the limits with a burst of 0.
func (l Limits) WithoutBurst() Limits { return Limits{Quota: l.Quota, Period: l.Period} }

// CPUs returns the quota in CPUs, and false if there is no quota.
func (l Limits) CPUs() (float64, bool) {
	if l.Quota == Unlimited {
		return 0, false
	}
	return float64(l.Quota) / float64(l.Period), true
}

// Validate returns an error for settings that the kernel rejects.
func (l Limits) Validate() error {
	limited := l.Quota != Unlimited
	switch {
	case l.Period < MinPeriod || l.Period > MaxPeriod:
		return fmt.Errorf("period %v is not within %v to %v", l.Period, MinPeriod, MaxPeriod)
	case limited && l.Quota < MinQuota:
		return fmt.Errorf("quota %v is below %v", l.Quota, MinQuota)
	case l.Burst < 0:
		return fmt.Errorf("burst %v is negative", l.Burst)
	case limited && l.Burst > l.Quota:
		return fmt.Errorf("burst %v is above the quota %v", l.Burst, l.Quota)
	case l.Quota > MaxQuota || l.Burst > MaxQuota-max(l.Quota, 0):
		return fmt.Errorf("quota %v and burst %v are above %v together", l.Quota, l.Burst, MaxQuota)
	case l.Period%time.Microsecond != 0 || limited && l.Quota%time.Microsecond != 0 || l.Burst%time.Microsecond != 0:
		return fmt.Errorf("quota %v, period %v, burst %v: the kernel counts whole microseconds", l.Quota, l.Period, l.Burst)
	}
	return nil
}

// NextDebt returns the debt of a group after one more period. The debt is the CPU time that is
// missing in the group's bucket, plus the backlog:
//
//	debt = burst - tokens + backlog
//	debt' = max(debt + demand - quota, 0)
//
// This is Lindley's recursion for a queue (D. V. Lindley, The theory of queues with a single
// server, 1952). The group was throttled in that period if and only if the new debt exceeds the
// burst, so one pass over a recording gives the result for every burst. A group that has been idle
// for some periods has no debt. Source: __refill_cfs_bandwidth_runtime in kernel/sched/fair.c of
// Linux 6.18, which package bandwidthtest models in full.
func NextDebt[T ~int64](debt, demand, quota T) T { return max(debt+demand-quota, 0) }
