package nodeplan

import (
	"cmp"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/qos"
)

// defaultPeriod is the kubelet's default period (pkg/kubelet/cm/helpers_linux.go, Kubernetes 1.37).
const defaultPeriod = 100 * time.Millisecond

// minRemainder is the least quota of a container without a limit in a pod whose quota is removed.
// If the pod's limit leaves less, the container runs on the pod's exclusive CPUs: it makes progress
// there, and many such containers do not exceed the limit together.
const minRemainder ledger.MilliCPU = 100

// PeriodOrDefault returns the period of pods that do not set one.
func (k KubeletConfig) PeriodOrDefault() time.Duration {
	return cmp.Or(k.Period, defaultPeriod)
}

// quota is the kubelet's MilliCPUToQuota.
func (k KubeletConfig) quota(limit ledger.MilliCPU) bandwidth.Limits {
	b := bandwidth.Limits{Quota: bandwidth.Unlimited, Period: k.PeriodOrDefault()}
	if limit > 0 && !k.NoQuota {
		b.Quota = max(share(limit, b.Period), bandwidth.MinQuota)
	}
	return b
}

// maxLimit is above what any machine has. Larger limits count as this one, because the kernel would
// reject their quotas and bursts in long periods.
const maxLimit ledger.MilliCPU = 10_000 * 1000

// share returns the CPU time of the limit in one period, in whole microseconds.
func share(limit ledger.MilliCPU, period time.Duration) time.Duration {
	return time.Duration(int64(min(limit, maxLimit))*period.Microseconds()/1000) * time.Microsecond
}

// inPeriod converts b to the period that the pod asks for. If the quota would then be below the
// kernel's minimum, the period is longer.
func inPeriod(b bandwidth.Limits, period time.Duration, limit ledger.MilliCPU) bandwidth.Limits {
	if period == 0 {
		return b
	}
	if b.Quota == bandwidth.Unlimited {
		return bandwidth.Limits{Quota: bandwidth.Unlimited, Period: period}
	}
	quota := share(limit, period)
	if quota < bandwidth.MinQuota {
		period = min(bandwidth.MaxPeriod, max(period, (time.Second/time.Duration(limit)+time.Microsecond-1).Truncate(time.Microsecond)))
		quota = max(bandwidth.MinQuota, share(limit, period))
	}
	return bandwidth.Limits{Quota: quota, Period: period}
}

// longestPeriod returns the period of a pod that asks for one: that of its container with the
// longest one. With a shorter one, the pod would throttle containers that use their quota at once.
func (p *Pod) longestPeriod(containers []ContainerSettings) time.Duration {
	longest := p.Period
	for _, c := range containers {
		if longest != 0 && c.Quota > 0 {
			longest = max(longest, c.Period)
		}
	}
	return longest
}

// effectiveLimit returns the limit that the kubelet uses for a container: its own or else that of
// the pod.
func (p *Pod) effectiveLimit(c *Container) ledger.MilliCPU {
	return cmp.Or(c.Limit, p.Limit)
}

// podLimit returns the limit from which the kubelet computes the quota of a pod's cgroup
// (ResourceConfigForPod), 0 for none: the pod-level limit or, if each container has a limit, the
// largest sum of limits of any phase.
func (p *Pod) podLimit() ledger.MilliCPU {
	limit := p.Limit
	if limit == 0 {
		var declared bool
		if limit, declared = p.containerLimits(); !declared {
			return 0
		}
	}
	if p.Tier == qos.BestEffort || limit == 0 {
		return 0
	}
	return limit + p.Overhead
}

// containerLimits returns the largest sum of limits of any phase, and whether each container has a
// limit.
func (p *Pod) containerLimits() (largest ledger.MilliCPU, declared bool) {
	var sum ledger.Phases[ledger.MilliCPU]
	declared = true
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Ephemeral {
			continue
		}
		declared = declared && c.Limit > 0
		sum.Add(c.Role, c.Limit)
	}
	return sum.Largest(), declared
}

// spare returns what the pod-level limit leaves to each container without a limit, above its
// request, when the pod's quota is removed because of static containers: an even part of what is
// left, so that the long-running containers together keep the pod's limit. It is negative if the
// limits of the others leave less than these requests.
func (p *Pod) spare() ledger.MilliCPU {
	limits, _ := p.containerLimits()
	rest := p.Limit - limits
	without := 0
	for i := range p.Containers {
		if o := &p.Containers[i]; !o.Ephemeral && o.Limit == 0 && o.Role != ledger.RoleInit {
			without++
			rest -= o.Request
		}
	}
	if rest < 0 {
		return -1
	}
	return rest / ledger.MilliCPU(max(1, without))
}

// remainder returns the share of a container without a limit: its request and the spare CPU time.
// It is 0 if no CPU time is left.
func (c *Container) remainder(spare ledger.MilliCPU) ledger.MilliCPU {
	if spare < 0 {
		return 0
	}
	return c.Request + spare
}
