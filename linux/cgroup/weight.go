package cgroup

import "math"

// Weight is a group's share of the CPU among its siblings, in the unit of the
// hierarchy's file: cpu.shares on version 1 (2 to 262144, default 1024),
// cpu.weight on version 2 (1 to 10000, default 100). An idle group reads 3 on
// version 1, 0 or (Linux 7.2) 1 on version 2, and its weight cannot be written.
type Weight uint64

// The ends of cpu.shares, MIN_SHARES and MAX_SHARES in kernel/sched/sched.h.
const (
	minShares = 2
	maxShares = 1 << 18
)

// The ends of cpu.weight, CGROUP_WEIGHT_MIN and CGROUP_WEIGHT_MAX.
const (
	minWeight Weight = 1
	maxWeight Weight = 10000
)

// PodWeight returns what the kubelet writes to the groups of tiers and pods for
// so many shares: linear on version 2 (getCPUWeight in
// pkg/kubelet/cm/cgroup_manager_linux.go of Kubernetes 1.37).
func (l Layout) PodWeight(shares uint64) Weight {
	shares = min(max(shares, minShares), maxShares)
	if l.CPU == V1 {
		return Weight(shares)
	}
	return 1 + Weight((shares-minShares)*9999/262142)
}

// ContainerWeight returns what runc writes to the groups of containers for so
// many shares: on version 2 a curve through the two minima, defaults and maxima
// (ConvertCPUSharesToCgroupV2Value in github.com/opencontainers/cgroups 0.0.7).
// The kubelet's line is another one: 1024 shares are 39 on a pod and 100 on a
// container.
func (l Layout) ContainerWeight(shares uint64) Weight {
	shares = min(max(shares, minShares), maxShares)
	switch {
	case l.CPU == V1:
		return Weight(shares)
	case shares == minShares:
		return minWeight
	case shares == maxShares:
		return maxWeight
	}
	log := math.Log2(float64(shares))
	return Weight(math.Ceil(math.Pow(10, (log*log+125*log)/612-7.0/34)))
}
