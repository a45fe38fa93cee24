package burst

import (
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
)

// Slack returns the constant in used <= limit x time + constant, which holds at any time since a
// container was first seen. late is the longest time for which a quota was raised without
// supervision: from a tick with a sample in which it stayed raised until the next decision was in
// force, or until now.
//
// If late is within two ticks (of the tuning's length), the constant is two quotas and the kernel's
// burst, the same as without raising. Each write by others adds the time that it grants, at once
// and at the next refill, and the time granted by the write that reverts it.
func Slack(base bandwidth.Limits, p Policy, tuning Tuning, late time.Duration) time.Duration {
	tick := tuning.withDefaults().Tick
	c := Container{Base: base, Policy: p, Present: base}
	t, on := termsOf(&c, tick)
	slack := 2*base.Quota + base.Burst
	if on {
		slack += scaled(t.allowed-t.quota, max(0, late-2*t.periods*t.period), t.period)
	}
	return slack
}
