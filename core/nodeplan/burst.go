package nodeplan

import (
	"cmp"
	"time"

	"pinfold.dev/pinfold/core/ledger"
)

// BurstMode says by what means a container may exceed its CPU limit for a moment.
type BurstMode string

// The modes.
const (
	BurstNone   BurstMode = "none"  // by none
	BurstKernel BurstMode = "burst" // the kernel gives back quota that was not used before
	BurstQuota  BurstMode = "quota" // the agent raises the quota for a while
	BurstAuto   BurstMode = "auto"  // both
)

// BurstPolicy is how the containers of a pod may exceed their limits. In a [Pod], zero
// values stand for those of [State.Burst].
type BurstPolicy struct {
	Mode BurstMode
	// BurstPercent of the quota is what can be saved up: 100 by the kernel, the rest
	// by raising the quota.
	BurstPercent int
	// QuotaPercent of the limit is the highest quota, 100 or more.
	QuotaPercent int
	// QuotaBurst is for how long a quota may stay raised to that, or [NoEnd].
	QuotaBurst time.Duration
}

// NoEnd is the QuotaBurst of a quota that may stay raised as long as savings last.
const NoEnd time.Duration = -1

// or fills in what the policy leaves open.
func (b BurstPolicy) or(others BurstPolicy) BurstPolicy {
	return BurstPolicy{
		Mode:         cmp.Or(b.Mode, others.Mode, BurstNone),
		BurstPercent: cmp.Or(b.BurstPercent, others.BurstPercent),
		QuotaPercent: cmp.Or(b.QuotaPercent, others.QuotaPercent),
		QuotaBurst:   cmp.Or(b.QuotaBurst, others.QuotaBurst),
	}
}

func (b BurstPolicy) kernel() bool { return b.Mode == BurstKernel || b.Mode == BurstAuto }

func (b BurstPolicy) raises() bool {
	return (b.Mode == BurstQuota || b.Mode == BurstAuto) && b.QuotaPercent > 100
}

// maxKernelPercent of the quota is what the kernel takes for a burst at most.
const maxKernelPercent = 100

// burstOf is the policy of a pod. Batch pods have none: what they find idle they may
// use anyway, and beyond that they stay behind.
func (s *State) burstOf(p *Pod) BurstPolicy {
	if p.QoS == BE {
		return BurstPolicy{Mode: BurstNone}
	}
	return p.Burst.or(s.Burst)
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

// giveBurst sets the kernel's burst of a pod's containers that have a quota, and that of
// the pod where it has one. It reports whether the kernel lacks what the policy asks for.
func (s *State) giveBurst(p *Pod, settings *PodSettings) (lacking bool) {
	policy := s.burstOf(p)
	if !policy.kernel() {
		return false
	}
	var sum together[time.Duration]
	for i := range settings.Containers {
		c := &settings.Containers[i]
		burst := c.Quota / 100 * time.Duration(min(policy.BurstPercent, maxKernelPercent))
		if burst = burst.Truncate(time.Microsecond); s.NoKernelBurst {
			lacking = lacking || burst > 0
			continue
		}
		c.Burst = burst
		if container := p.container(c.Name); !container.Ephemeral {
			sum.add(container.Role, burst)
		}
	}
	settings.Burst = min(sum.largest(), settings.Quota)
	return lacking
}

// together adds up what containers have that run at the same time.
type together[T ~int64] struct{ sidecars, mains, inits T }

// add takes in a container; they must come in the pod's order.
func (t *together[T]) add(role ledger.Role, amount T) {
	switch role {
	case ledger.RoleInit:
		t.inits = max(t.inits, t.sidecars+amount)
	case ledger.RoleSidecar:
		t.sidecars += amount
	default:
		t.mains += amount
	}
}

// largest is the sum in that phase of a pod's life in which it is largest.
func (t *together[T]) largest() T { return max(t.inits, t.sidecars+t.mains) }
