package nodeplan

import (
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/ledger"
)

// Raising is the state of a group whose quota may be raised.
type Raising struct {
	// Base is the bandwidth without any raise.
	Base bandwidth.Limits
	// Highest is what the quota may be raised to, Base.Quota when it may not be raised.
	Highest time.Duration
	// Policy is how a container's may be; the zero value when it may not, and of pods.
	Policy burst.Policy
}

// raise gives containers the quota that was decided for them, and their pod as much more: no more
// than its policy allows, and only to who has a limit of its own.
func (s *State) raise(p *Pod, settings *PodSettings) {
	settings.Raising = Raising{Base: settings.Limits, Highest: settings.Quota}
	policy := s.burstOf(p)
	var more, most ledger.Phases[time.Duration]
	for i := range settings.Containers {
		c, container := &settings.Containers[i], p.container(settings.Containers[i].Name)
		c.Raising = Raising{Base: c.Limits, Highest: c.Quota}
		if c.Quota == bandwidth.Unlimited || container.Limit == 0 || !policy.Mode.RaisesQuota() || policy.QuotaPercent <= 100 || !p.limitsFit() {
			continue
		}
		c.Policy = policy
		c.Highest = (c.Quota / 100 * time.Duration(policy.QuotaPercent)).Truncate(time.Microsecond)
		c.Quota = max(c.Quota, min(container.Raised, c.Highest))
		more.Add(container.Role, scaled(c.Quota-c.Base.Quota, settings.Period, c.Period))
		most.Add(container.Role, scaled(c.Highest-c.Base.Quota, settings.Period, c.Period))
	}
	if settings.Quota > 0 {
		settings.Quota += more.Largest()
		settings.Highest += most.Largest()
	}
}

// limitsFit reports whether the pod's limit has room for all that its containers may use. Where it
// has not, what one of them does not use is not saved: others may use it.
func (p *Pod) limitsFit() bool {
	limits, declared := p.containerLimits()
	return p.Limit == 0 || declared && limits <= p.Limit
}

// scaled is the same amount of CPU in another period, in whole microseconds, rounded up: a pod must
// not have less than its container.
func scaled(quota, to, from time.Duration) time.Duration {
	n := quota.Microseconds()*to.Microseconds() + from.Microseconds() - 1
	return time.Duration(n/from.Microseconds()) * time.Microsecond
}
