package nodeplan

import (
	"time"

	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/ledger"
)

// maxKernelPercent of the quota is what the kernel takes for a burst at most.
const maxKernelPercent = 100

// burstOf is the policy of a pod. Batch pods have none: what they find idle they may use anyway,
// and beyond that they stay behind.
func (s *State) burstOf(p *Pod) burst.Policy {
	if p.Class == BE {
		return burst.Policy{Mode: burst.None}
	}
	return p.Burst.Or(s.Burst)
}

// giveBursts gives everybody burst and, where quota is raised, more quota.
func (s *State) giveBursts(d *Desired) {
	lacking := false
	for i := range d.Pods {
		p, settings := &s.Pods[i], &d.Pods[i]
		lacking = s.giveBurst(p, settings) || lacking
		s.raise(p, settings)
	}
	if lacking {
		d.Findings = append(d.Findings, Finding{Kind: NoKernelBurst})
	}
}

// giveBurst sets the kernel's burst of a pod's containers that have a quota, and that of the pod
// where it has one. It reports whether the kernel lacks what the policy asks for.
func (s *State) giveBurst(p *Pod, settings *PodSettings) (lacking bool) {
	policy := s.burstOf(p)
	if !policy.Mode.UsesKernel() {
		return false
	}
	var sum ledger.Phases[time.Duration]
	for i := range settings.Containers {
		c := &settings.Containers[i]
		amount := c.Quota / 100 * time.Duration(min(policy.BurstPercent, maxKernelPercent))
		if amount = amount.Truncate(time.Microsecond); s.NoKernelBurst {
			lacking = lacking || amount > 0
			continue
		}
		c.Burst = amount
		if container := p.container(c.Name); !container.Ephemeral {
			sum.Add(container.Role, amount)
		}
	}
	settings.Burst = min(sum.Largest(), max(0, settings.Quota))
	return lacking
}
