package burst

import (
	"cmp"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/trace"
)

// Container is the state of one container at one tick. It must have a limit.
type Container struct {
	// ID must change when the container restarts, and be unique within a tick.
	ID string
	// Base is the quota and period of the limit, and the kernel burst while the quota is not
	// raised.
	Base bandwidth.Limits
	// Policy must have no unset fields.
	Policy Policy
	// Present is the setting of the cgroup as last read.
	Present bandwidth.Limits
	// Writes is the number of writes to quota, period and burst of the container's cgroup since the
	// last tick: of each file, by any writer, including writes that failed or whose outcome is
	// unknown.
	Writes int
	// Sample is what the container did since its last sample. Only Interval, Usage, Periods and
	// Throttled are read. Interval is 0 if there is no sample at this tick.
	Sample trace.Sample
	// CPUs are the CPUs that the container may run on.
	CPUs cpuset.Set
}

// Tick is the state of a node at one moment.
type Tick struct {
	// Now is monotonic, with any origin.
	Now time.Duration
	// Interval is the time since CPUs were last sampled, 0 if they were not at this tick. Idle is
	// how long each CPU, by number, was idle in it. A CPU beyond its end counts as busy.
	Interval time.Duration
	Idle     []time.Duration
	// Batch is how much CPU time batch work used in Interval, on BatchCPUs. Batch work has idle
	// priority and gives way at once, so its time counts as idle.
	Batch      time.Duration
	BatchCPUs  cpuset.Set
	Containers []Container
}

// Decision is the quota that one container should have.
type Decision struct {
	// Quota per Base.Period: that of Base, or a raised one.
	Quota time.Duration
	// Raised reports whether Quota is above that of Base.
	Raised bool
	// Write requests to write Quota now: Present differs from it, and a first or another attempt is
	// due.
	Write bool
	// Reason is why Quota is what it is.
	Reason Reason
	// Tokens is the CPU time in the bucket. It is negative while the container has to repay.
	Tokens time.Duration
}

// Reason is the reason for a quota decision.
type Reason uint8

// The reasons. Throttled, NearQuota, Held and Shared explain a raised quota, all others the quota
// of Base. Idle to Changed explain why a quota was lowered at this tick.
const (
	Off        Reason = iota // the policy does not raise quotas, or there is no valid limit
	Satisfied                // needs no more than its limit
	Throttled                // raised at this tick, because it was throttled
	NearQuota                // raised at this tick, because it used nearly its whole quota
	Held                     // raised earlier, and kept
	Shared                   // still raised, but less than before, because others need a share of the CPUs
	NoTokens                 // needs more, but its bucket does not hold enough
	TooSmall                 // needs more, but its policy allows too little for a raise to be worth its writes
	NoHeadroom               // needs more, but its CPUs are not idle enough
	TooSoon                  // needs more, but the last raise was too recent
	Idle                     // has not needed more than its limit for the hold time
	Spent                    // the bucket is nearly empty
	Shortage                 // others need the CPUs
	Overruled                // another writer changed the quota, or raising it had no effect
	Unseen                   // no samples for too long
	Changed                  // the limit changed, or the policy no longer allows the raised quota

	reasons = iota
)

// String returns the reason as one word.
func (r Reason) String() string {
	if int(r) >= reasons {
		return "unknown"
	}
	return [reasons]string{"off", "satisfied", "throttled", "near-quota", "held", "shared", "no-tokens", "too-small", "no-headroom",
		"too-soon", "idle", "spent", "shortage", "overruled", "unseen", "changed"}[r]
}

// NoEnd is a QuotaBurstSeconds that stands for the most that can be saved: an hour at the highest quota.
const NoEnd = -1

// Policy defines how far a container may exceed its CPU limit. Zero fields are unset; see
// [Policy.Or].
type Policy struct {
	Mode Mode `json:"policy,omitempty"`
	// BurstPercent of the quota can be saved, at most 10000. The kernel serves the first 100.
	BurstPercent int `json:"burstPercent,omitempty"`
	// QuotaPercent of the limit is the highest quota, 100 to 10000. At 100, the quota is never
	// raised.
	QuotaPercent int `json:"quotaPercent,omitempty"`
	// QuotaBurstSeconds is how long a full bucket lasts at the highest quota, or NoEnd.
	QuotaBurstSeconds int `json:"quotaBurstSeconds,omitempty"`
}

// Or returns the policy with its unset fields taken from others.
func (p Policy) Or(others Policy) Policy {
	return Policy{
		Mode:              cmp.Or(p.Mode, others.Mode),
		BurstPercent:      cmp.Or(p.BurstPercent, others.BurstPercent),
		QuotaPercent:      cmp.Or(p.QuotaPercent, others.QuotaPercent),
		QuotaBurstSeconds: cmp.Or(p.QuotaBurstSeconds, others.QuotaBurstSeconds),
	}
}

// WithKernel returns the policy with the given kernel burst in percent, 0 for none. What else
// it does remains.
func (p Policy) WithKernel(percent int) Policy {
	uses := p.Mode.Uses()
	uses.Kernel = percent > 0
	p.Mode = definitions(Definitions()).using(uses, p.Mode)
	if min(p.BurstPercent, 100) != percent { // the part above 100 is not the kernel's
		p.BurstPercent = percent
	}
	return p
}
