package kubepods

import "pinfold.dev/pinfold/linux/cgroup"

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
