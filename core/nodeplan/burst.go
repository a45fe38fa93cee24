package nodeplan

import (
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/ledger"
)

// maxKernelPercent is the kernel's maximum of a burst, in percent of the quota.
const maxKernelPercent = 100

// policy returns the burst policy of a pod. Batch pods have none: nothing waits for their answers.
func (p *Pod) policy() burst.Policy {
	if p.Class == BE {
		return burst.Policy{Mode: burst.None}
	}
	return p.Burst
}

// setBursts sets the burst and the raised quota of all pods.
func (s *State) setBursts(d *Desired) {
	lacking := false
	for i := range d.Pods {
		p, settings := &s.Pods[i], &d.Pods[i]
		lacking = s.setBurst(p, settings) || lacking
		p.raise(settings)
	}
	if lacking {
		d.Findings = append(d.Findings, Finding{Kind: NoKernelBurst, Reason: s.NoKernelBurst})
	}
}

// setBurst sets the kernel burst of a pod and of its containers with a quota. It reports whether
// the policy needs a burst that the kernel does not support.
func (s *State) setBurst(p *Pod, settings *PodSettings) (lacking bool) {
	policy := p.policy()
	if !policy.Mode.UsesKernel() {
		return false
	}
	var sum ledger.Phases[time.Duration]
	for i, container := range p.present() {
		c := &settings.Containers[i]
		amount := c.Quota / 100 * time.Duration(min(policy.BurstPercent, maxKernelPercent))
		if amount = amount.Truncate(time.Microsecond); s.NoKernelBurst != "" {
			lacking = lacking || amount > 0
			continue
		}
		c.Burst = amount
		if !container.Ephemeral {
			sum.Add(container.Role, amount)
		}
	}
	settings.Burst = min(sum.Largest(), max(0, settings.Quota))
	return lacking
}

// Raising is the state of a group whose quota may be raised.
type Raising struct {
	// Base is the bandwidth without any raise.
	Base bandwidth.Limits
	// Highest is the highest quota permitted; it is Base.Quota if the quota may not be raised.
	Highest time.Duration
	// Policy is the burst policy of a container whose quota may be raised. It is the zero value
	// otherwise, and for pods.
	Policy burst.Policy
}

// unraised returns the state of a group whose quota may not be raised.
func unraised(l bandwidth.Limits) Raising { return Raising{Base: l, Highest: l.Quota} }

// raise sets the raised quota of containers with a limit, at most as the policy allows, and raises
// their pod's quota by the same amount.
func (p *Pod) raise(settings *PodSettings) {
	settings.Raising = unraised(settings.Limits)
	policy := p.policy()
	mayRaise := policy.Mode.RaisesQuota() && policy.QuotaPercent > 100 && p.limitsFit()
	var more, most ledger.Phases[time.Duration]
	for i, container := range p.present() {
		c := &settings.Containers[i]
		c.Raising = unraised(c.Limits)
		if c.Quota == bandwidth.Unlimited || container.Limit == 0 || !mayRaise {
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

// limitsFit reports whether the pod-level limit covers the limits of all containers. Otherwise
// other containers may have used the time that one of them seems to have saved.
func (p *Pod) limitsFit() bool {
	limits, declared := p.containerLimits()
	return p.Limit == 0 || declared && limits <= p.Limit
}

// scaled converts a quota to another period, in whole microseconds, rounded up: a pod must not have
// less than its container.
func scaled(quota, to, from time.Duration) time.Duration {
	n := quota.Microseconds()*to.Microseconds() + from.Microseconds() - 1
	return time.Duration(n/from.Microseconds()) * time.Microsecond
}
