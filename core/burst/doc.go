// Package burst decides how far, and for how long, the quotas of containers are raised above their
// limits.
//
//	c := burst.New()
//	decisions = c.Step(&tick, decisions)    // about every 100 ms
//
// [Controller.Step] takes a [Tick], the state of all containers of a node at one moment, and
// returns for each container the quota it should have and the [Reason]. The package has no clock
// and does no I/O. Ticks should be 100 ms apart, but may be late or missing.
//
// # The bucket
//
// Each container has a bucket of CPU time that gains limit x time and loses the time used, so it
// measures how far long-term usage is below the limit. Its capacity is
//
//	(quotaPercent/100 - 1) x limit x quotaBurstSeconds + (burstPercent/100 - 1) x quota
//
// where each term is at least 0. The first term is what a quota raised to quotaPercent uses beyond
// the limit in quotaBurstSeconds. The second is what burstPercent grants beyond the first 100
// percent, which the kernel serves itself. quotaBurstSeconds is capped at one hour; [NoEnd] also
// means one hour.
//
// Each write of quota, period or burst refills the kernel's own bucket, even if the value does not
// change. It is charged as one quota (the largest of those before, after and of the limit) plus the
// kernel burst, no matter who wrote, and also if it failed or its outcome is unknown. CPU time that
// the refill granted is charged again when it is used. This is deliberate: the charge does not wait
// for a sample, and writes become expensive for the container that causes them.
//
// A new bucket starts in debt by the most that an agent killed at the worst moment can have left
// behind, so restarting the agent or the container never gains CPU time.
//
// # Guarantee
//
// At any time since a container was first seen,
//
//	used <= limit x time + Slack
//
// regardless of its demand, of idle CPUs and of failures; see [Slack]. A tick that is late while a
// quota is raised adds what the raised quota grants in that time, once, because it is repaid before
// the next raise. An agent that is killed while a quota is raised and does not restart soon cannot
// repay it, so an orderly shutdown should restore quotas first.
//
// [Budget] is a separate account for writes that the author of a pod can cause through annotations.
//
// # Raising
//
// A quota is raised when the container was throttled, or used nine tenths of (quota + kernel burst)
// in a period, and all of these hold:
//
//   - the bucket covers the write, five ticks of full use, and the reserve described below;
//   - enough time has passed since the last raise (see Holding);
//   - the CPUs are idle enough (see Headroom) for a raise by one eighth of the limit, or by the
//     full amount that the policy allows if that is less.
//
// The quota is raised at once to the highest value that these conditions allow. It never exceeds
// quotaPercent, the number of the container's CPUs, or what a full bucket pays for.
//
// # Holding
//
// A raised quota does not follow demand. It returns to the limit when one of these holds:
//
//   - The bucket no longer holds the reserve: the cost of the lowering write, plus what can be used
//     until the next tick.
//   - For the hold time the container was not throttled, and no two adjacent periods together
//     needed more than three quarters of (quota + kernel burst), where quota is that of the limit.
//     (Two periods, because a burst may straddle two samples.) The peak counts, not the mean: a
//     container that is mostly idle but exceeds this every half second keeps its quota.
//   - There is no headroom.
//   - The limit changed, the policy no longer allows the quota, another writer changed the quota,
//     or no samples arrived for two seconds.
//
// The hold time is 10 s, and is also the minimum time between two raises. A raise within three hold
// times of the previous one doubles it, up to 160 s. A raise after more than six halves it. Each
// raise is followed by at most one step down for lack of headroom and by the lowering. So there are
// at most eleven writes per minute, and about three per 160 s for a container that keeps
// alternating. A write that had no effect is retried after 1, 2, 4, 8 and then every 10 s. A raise
// that had no effect is abandoned after one second.
//
// Some programs follow their limit. Since Go 1.25 the Go runtime checks quota/period at most once a
// second and stops the world to change GOMAXPROCS when its rounded value changes
// (sysmonUpdateGOMAXPROCS and adjustCgroupGOMAXPROCS in Go 1.26). The write rates above are upper
// bounds for these stops.
//
// # Headroom
//
// Raised quotas share the idle time of their CPUs. Idle time and container usage are smoothed over
// the same 400 ms, so idle time that a raised container consumes is still attributed to it. For a
// set of CPUs, the headroom is
//
//	idle time + usage of raised containers - their limits - a margin
//
// where the margin is 5% of the CPUs, but at least a tenth of a CPU. CPU time that batch work with
// idle priority uses counts as idle, because it gives way at once. Only its sum over the CPUs on
// which it may run is known. For a part of these CPUs, the sum less the busy time of the others
// counts, which is never too much.
//
// Headroom is divided in proportion to the limits (max-min fairness): all shares grow together
// until a container has what it wants or a set of CPUs is exhausted, and the others continue to
// grow. If sets overlap, each union of overlapping sets is treated as a set too. This is exact
// (Hall's condition) for up to 128 unions.
//
// A container that has held more than four thirds of its share for 300 ms is lowered: to its share
// the first time, and to its limit if that happens again within the hold time or if a write for the
// share is not worth it or not covered by the bucket. A container that newly asks gets what is
// left. Others are lowered to their share in its favour only after their hold time.
//
// # Comparison with Koordinator
//
// Koordinator's koordlet (pkg/koordlet/qosmanager/plugins/cpuburst, read in 2026) also uses kernel
// burst and raised quotas. It multiplies the quota by 1.2 in each round with throttling, and by 0.8
// when its bucket is empty or the node is above a threshold; each step is a write. Its bucket gains
// below 60% of the limit, loses above 100%, discards everything below minus its capacity, starts
// with a random amount, and does not charge for refills caused by writes. By default
// (cfsQuotaBurstPeriodSeconds below 0) there is no bucket. A container that is no longer throttled
// keeps its raised quota. Containers raise their quotas independently of each other.
package burst
