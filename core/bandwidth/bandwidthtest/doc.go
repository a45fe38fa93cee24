// Package bandwidthtest models the kernel's CFS bandwidth controller for tests: given quota, period
// and burst of one cgroup and its demand for CPU time, it computes usage, throttling and burst. The
// source is kernel/sched/fair.c and core.c of Linux 6.18.
//
//	c, err := bandwidthtest.NewController(limits)
//	used := c.Step(demand)               // one period
//
//	s, err := bandwidthtest.NewServer(cpus, phase, limits)
//	s.Submit(work)                       // a request
//	s.Advance(until)
//
// [Controller] works on whole periods. [Server] serves requests within them, for recordings whose
// samples are shorter than a period.
//
// # The controller
//
// A group has a bucket of CPU time and a timer. At each tick of the timer the quota is added to the
// bucket. CPU time used beyond one quota since the last refill counts as burst. The bucket is then
// capped at quota + burst. If no time was used since the previous tick, the timer stops after that
// refill: because burst <= quota, two refills have filled the bucket. The timer starts again when
// time is used, and keeps its previous phase. Only periods in which the timer runs are counted
// (nr_periods).
//
// Every write of quota, period or burst causes one more refill, even if the value does not change.
// The refill unthrottles CPUs and forgives their overuse. A limit that is written often enough has
// no effect.
//
// [Controller] is a recurrence over periods:
//
//	used    = min(backlog + demand, bucket)
//	backlog = backlog + demand - used
//	bucket  = min(bucket - used + quota, quota + burst)
//
// # What is not modelled
//
//   - Other groups, and limits of ancestors and descendants. On a real machine a request that waits
//     for another group runs later, which can move its usage into the next period.
//   - Slices and ticks. In the kernel, a group may be throttled although it needs less than quota +
//     burst, because the remaining time is held by another CPU. It may also exceed quota + burst by
//     up to one tick per CPU, and then gets less in the next period.
//   - CPU selection, migration, and the order in which threads run on a CPU.
//   - Deferred throttling. Since 6.18 a thread is throttled when it returns to user space, not at
//     the tick. A long system call continues and its time is repaid; throttled_time counts from the
//     return.
//   - The kernel's reaction when a period is so short that its timer is late four times (it doubles
//     quota and period).
//   - Groups of real-time threads.
//
// The tests in test/kernel measure how close the model is to the running kernel.
package bandwidthtest
