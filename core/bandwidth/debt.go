package bandwidth

// NextDebt returns the debt of a group after one more period. The debt is the CPU time that
// is missing in the group's full bucket, and that it still wants:
//
//	debt = burst - tokens + backlog
//	debt' = max(debt + demand - quota, 0)
//
// The group was throttled in that period if and only if the new debt exceeds the burst. So
// one pass over a recording answers for every burst. A group that has been idle for some
// periods has no debt. Source: __refill_cfs_bandwidth_runtime in kernel/sched/fair.c of Linux
// 6.18; bandwidthtest has the controller in full.
func NextDebt[T ~int64](debt, demand, quota T) T { return max(debt+demand-quota, 0) }
