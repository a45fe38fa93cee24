package burst

import (
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
)

// Slack is the constant in used <= limit x time + constant, which holds at any time since
// a container was first seen. Late is the longest time that a quota was raised with nobody
// looking: from a tick with a sample in which it stayed raised until the next decision was
// in force, or still is not.
//
// In time, that is within two ticks (of the tuning's length), it is two quotas and the
// kernel's burst, as without any raising. Each write by others adds what it gives away,
// at once and with the next refill, and what the write gives that undoes it.
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
