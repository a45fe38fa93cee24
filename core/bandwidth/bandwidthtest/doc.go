// Package bandwidthtest is the kernel's CFS bandwidth controller as arithmetic: quota,
// period and burst of one control group, and what they make of a demand for CPU time.
// Source: kernel/sched/fair.c and core.c of Linux 6.18.
//
// # The controller
//
// A group has a bucket of CPU time and a timer. At each tick of the timer the quota is
// added to the bucket; what was taken beyond one quota since the last refill counts as
// burst; then the bucket is cut to quota + burst. When nothing was taken since the
// tick before, the timer stops, after that refill: since burst <= quota, two refills
// have filled the bucket. The timer starts again when time is taken, and goes on in the
// old rhythm. Only periods in which it runs are counted (nr_periods).
//
// Every write of quota, period or burst is one more refill, whether the value differs
// or not; it lets throttled CPUs go on and forgives what they used too much. Written
// often enough, a limit limits nothing.
//
// # Two levels
//
// [Controller] is the recurrence over periods: the demand of a period is one number, the
// group has as many CPUs as it needs, and what is not served is backlog,
//
//	used    = min(backlog + demand, bucket)
//	backlog = backlog + demand - used
//	bucket  = min(bucket - used + quota, quota + burst)
//
// [Group] looks into the period: requests arrive at any time, run on CPUs, are
// throttled and finish, which gives latency and throttled time. It is exact in whole
// nanoseconds, and goes from event to event. Its [Machine] says how CPU time is handed out.
// As an ideal fluid ([Fluid]), CPUs that run draw on the bucket at the same rate until it
// is empty. In the kernel ([Kernel]) each CPU takes slices of 5 ms from it, finds out at
// its next tick when it has used more, pays that back out of the next slice, and keeps up to
// 1 ms when it has nothing more to run; the rest goes back and may end the throttling of
// other CPUs before the period ends. So a group may be throttled although it needs less
// than quota + burst: what it needs lies on another CPU. It may also use more than that,
// up to a tick on each CPU, and less in the next period.
//
// # What is not in the model
//
//   - Other groups: a Group has its CPUs to itself, and limits of groups above or below
//     it are not looked at. A request that waits for another group's runs later, which
//     can move its use into the next period.
//   - Which CPU a thread wakes on and where it is moved. [AnyCPU] takes the shortest
//     queue; the kernel also weighs caches, and does not always find the idle CPU.
//   - The order on a CPU: requests take turns of equal length, whatever they used.
//   - Since 6.18 a thread is throttled when it returns from the kernel, not at the tick.
//     A long system call runs on and is paid back. The time it waits (throttled_time) is
//     counted from then on.
//   - What the kernel does when a period is so short that its timer comes late four
//     times (it doubles quota and period).
//   - Groups of real-time threads.
//
// How near it comes to the running kernel is measured by test/kernel.
package bandwidthtest
