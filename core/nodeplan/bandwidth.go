package nodeplan

import (
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/ledger"
)

// defaultPeriod is the kubelet's (pkg/kubelet/cm/helpers_linux.go, Kubernetes 1.37).
const defaultPeriod = 100 * time.Millisecond

// leastLeft is what a container without limit gets at least of a limit at pod level that static
// containers use up, so that it can do its work at all.
const leastLeft ledger.MilliCPU = 100

// PeriodOrDefault returns the period of all limits whose pods set none.
func (k KubeletConfig) PeriodOrDefault() time.Duration {
	if k.Period == 0 {
		return defaultPeriod
	}
	return k.Period
}

// quota is the kubelet's MilliCPUToQuota.
func (k KubeletConfig) quota(limit ledger.MilliCPU) bandwidth.Limits {
	b := bandwidth.Limits{Quota: bandwidth.Unlimited, Period: k.PeriodOrDefault()}
	if limit > 0 && !k.NoQuota {
		b.Quota = max(share(limit, b.Period), bandwidth.MinQuota)
	}
	return b
}

// share is the time that the amount is in one period, in whole microseconds.
func share(limit ledger.MilliCPU, period time.Duration) time.Duration {
	return time.Duration(int64(limit)*period.Microseconds()/1000) * time.Microsecond
}

// inPeriod is the same amount of CPU time in the period that a pod asks for. Where that would be
// less than the kernel takes for a quota, the period is as much longer.
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

// longestPeriod is the period of a pod that asks for one: as long as the longest of its containers,
// which the pod would throttle otherwise when they use their quota at once.
func (p *Pod) longestPeriod(containers []ContainerSettings) time.Duration {
	longest := p.Period
	for _, c := range containers {
		if longest != 0 && c.Quota > 0 {
			longest = max(longest, c.Period)
		}
	}
	return longest
}

// effectiveLimit is what the kubelet takes for a container's limit: without one of its own, that of
// the pod.
func (p *Pod) effectiveLimit(c *Container) ledger.MilliCPU {
	if c.Limit == 0 {
		return p.Limit
	}
	return c.Limit
}

// podLimit is what the kubelet makes the quota of a pod's cgroup of (its ResourceConfigForPod), 0
// for none: the limit at pod level, or else the largest sum of limits of any phase of its life when
// each container has one.
func (p *Pod) podLimit() ledger.MilliCPU {
	limit := p.Limit
	if limit == 0 {
		var declared bool
		if limit, declared = p.containerLimits(); !declared {
			return 0
		}
	}
	if p.Tier == BestEffort || limit == 0 {
		return 0
	}
	return limit + p.Overhead
}

// containerLimits is the largest sum of limits of any phase, and whether each container has one.
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

// leftOf is what a limit at pod level leaves to each container without a limit of its own once the
// pod's quota is lifted for the sake of static containers. It is divided evenly, so that the pod as
// a whole keeps its limit.
func (p *Pod) leftOf(c *Container) ledger.MilliCPU {
	taken, _ := p.containerLimits()
	without := 0
	for i := range p.Containers {
		if o := &p.Containers[i]; !o.Ephemeral && o.Limit == 0 && o.Role != ledger.RoleInit {
			without++
		}
	}
	left := (p.Limit - taken) / ledger.MilliCPU(max(1, without))
	return max(left, c.Request, leastLeft)
}
