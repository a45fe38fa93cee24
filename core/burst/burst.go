package burst

import (
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/trace"
)

// Container is what is known of one container in one tick. It must have a limit.
type Container struct {
	// ID must be another one after a restart of the container, and must not come twice
	// in a tick.
	ID string
	// Base is what the limit makes of quota and period, and the kernel burst of the
	// unraised container.
	Base bandwidth.Limits
	// Policy must be complete.
	Policy Policy
	// Present is what the control group holds, as it was read last.
	Present bandwidth.Limits
	// Writes counts the writes of quota, period and burst of the container's own control
	// group since the last tick: each single file, by whomever, also those that failed or
	// of which the outcome is not known.
	Writes int
	// Sample is what the container did since its last sample; only Interval, Usage,
	// Periods and Throttled are read. The Interval is 0 when there is none in this tick.
	Sample trace.Sample
	// CPUs are those that the container may run on.
	CPUs cpuset.Set
}

// Tick is one moment at which quotas are decided.
type Tick struct {
	// Now is monotonic; its origin has no meaning.
	Now time.Duration
	// Interval is the time since the CPUs were last looked at, 0 when they were not in
	// this tick. Idle is how long each CPU was idle in it, indexed by number. A CPU
	// beyond its end counts as busy.
	Interval   time.Duration
	Idle       []time.Duration
	Containers []Container
}

// Decision is what one container should have.
type Decision struct {
	// Quota that is wanted in Base.Period: that of the base, or a raised one.
	Quota time.Duration
	// Raised says that Quota is above that of the base.
	Raised bool
	// Write says that Quota should be written now, because Present differs from it and
	// it is time for a first or another attempt.
	Write bool
	// Reason is why Quota is what it is.
	Reason Reason
	// Tokens is what the bucket holds, below zero when the container has yet to save
	// what it has had too much; Capacity is what it holds at most. CPU time.
	Tokens, Capacity time.Duration
}

// Tuning are the figures of the policy. Zero values stand for the defaults.
type Tuning struct {
	// Tick is the nominal time between two ticks (100 ms).
	Tick time.Duration
	// MinHold is how long a container must have needed no more than its limit before
	// its raised quota is lowered, and the least time between two raises (10 s). It
	// doubles while a quota goes up and down, up to MaxHold (160 s).
	MinHold, MaxHold time.Duration
	// Shortage is how long headroom must be missing before a quota is lowered (300 ms).
	Shortage time.Duration
	// Smoothing is the time constant of the mean idle time of CPUs (400 ms).
	Smoothing time.Duration
	// MarginPercent of the CPUs are left idle, but at least a tenth of a CPU (5).
	MarginPercent int
}

func (t Tuning) withDefaults() Tuning {
	set := func(value *time.Duration, otherwise time.Duration) {
		if *value == 0 {
			*value = otherwise
		}
	}
	set(&t.Tick, 100*time.Millisecond)
	set(&t.MinHold, 10*time.Second)
	set(&t.MaxHold, 16*t.MinHold)
	set(&t.Shortage, 300*time.Millisecond)
	set(&t.Smoothing, 400*time.Millisecond)
	if t.MarginPercent == 0 {
		t.MarginPercent = 5
	}
	return t
}
