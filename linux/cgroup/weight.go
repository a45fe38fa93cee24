package cgroup

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
