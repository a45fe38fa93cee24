package burst

// Reason is the reason for a quota decision.
type Reason uint8

// The reasons. Throttled, NearQuota, Held and Shared go with a raised quota, all others with
// that of the base.
const (
	// Off: the policy does not raise quotas, or the container has no valid limit.
	Off Reason = iota
	// Calm: the container needs no more than it has.
	Calm
	// Throttled: raised in this tick, because the container was throttled.
	Throttled
	// NearQuota: raised in this tick, because the container used nearly all it may.
	NearQuota
	// Held: raised before, and kept.
	Held
	// Shared: still raised, but less far than before, since others need a share of the CPUs.
	Shared
	// NoTokens: the container needs more, but has not saved enough.
	NoTokens
	// TooSmall: the container needs more, but its policy allows too little to be saved up
	// or too little more quota for a raise to be worth its writes.
	TooSmall
	// NoHeadroom: the container needs more, but its CPUs are not idle enough.
	NoHeadroom
	// TooSoon: the container needs more, but its quota was changed a short while ago.
	TooSoon
	// Idle: lowered in this tick; the container has needed no more than its limit for a while.
	Idle
	// Spent: lowered in this tick; the bucket is nearly empty.
	Spent
	// Shortage: lowered in this tick; others need the CPUs.
	Shortage
	// Overruled: lowered in this tick; somebody else has changed the quota, or the write
	// of the raised one had no effect.
	Overruled
	// Unseen: lowered in this tick; there were no samples for too long.
	Unseen
	// Changed: lowered in this tick; the limit or the policy has changed.
	Changed

	reasons = iota
)

// String returns the reason as one word.
func (r Reason) String() string {
	if int(r) >= reasons {
		return "unknown"
	}
	return [reasons]string{"off", "calm", "throttled", "near-quota", "held", "shared", "no-tokens", "too-small", "no-headroom",
		"too-soon", "idle", "spent", "shortage", "overruled", "unseen", "changed"}[r]
}
