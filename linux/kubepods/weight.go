package kubepods

import (
	"math"

	"pinfold.dev/pinfold/linux/cgroup"
)

// The range of cpu.shares, MIN_SHARES and MAX_SHARES in kernel/sched/sched.h.
const (
	minShares = 2
	maxShares = 1 << 18
)

// PodWeight returns the weight that the kubelet writes to the groups of tiers and pods for a number
// of shares. It is linear on version 2 (getCPUWeight in pkg/kubelet/cm/cgroup_manager_linux.go of
// Kubernetes 1.37).
func PodWeight(v cgroup.Version, shares uint64) cgroup.Weight {
	shares = min(max(shares, minShares), maxShares)
	if v == cgroup.V1 {
		return cgroup.Weight(shares)
	}
	return 1 + cgroup.Weight((shares-minShares)*9999/262142)
}

// ContainerWeight returns the weight that runc writes to the groups of containers for a number of
// shares. On version 2 it is a curve through the two minima, defaults and maxima
// (ConvertCPUSharesToCgroupV2Value in github.com/opencontainers/cgroups 0.0.7), which differs from
// the kubelet's line: 1024 shares are 39 for a pod and 100 for a container.
func ContainerWeight(v cgroup.Version, shares uint64) cgroup.Weight {
	shares = min(max(shares, minShares), maxShares)
	switch {
	case v == cgroup.V1:
		return cgroup.Weight(shares)
	case shares == minShares:
		return 1
	case shares == maxShares:
		return 10000
	}
	log := math.Log2(float64(shares))
	return cgroup.Weight(math.Ceil(math.Pow(10, (log*log+125*log)/612-7.0/34)))
}
