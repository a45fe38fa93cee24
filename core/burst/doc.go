// Package burst decides how far the quota of containers is raised above their limit, and
// for how long. [Controller.Step] takes in what is known at one moment, a tick, of all
// containers of a node and returns what quota each should have, and why. It has no clock
// and does no I/O; ticks are meant to be 100 ms apart, but may be late or missing.
//
// # The bucket
//
// Each container has a bucket of CPU time. It gains limit x time and loses what was used,
// so it measures how far the container is below its limit in the long run. It holds at most
//
//	(quotaPercent/100 - 1) x limit x quotaBurstSeconds + (burstPercent/100 - 1) x quota
//
// (each part at least 0), which is what a quota raised to quotaPercent uses beyond the limit in
// quotaBurstSeconds, and what burstPercent asks for beyond the first 100, which the
// kernel serves. [NoEnd] seconds, and more than an hour, are an hour.
//
// Each write of quota, period or burst refills the kernel's own bucket, also a write of
// the same value. It is charged as one quota (the highest of before, after and base) and
// the kernel burst, whoever wrote, and also when it failed or nobody knows. What is used
// of that gift is counted once more when it is used. That is on purpose: the charge does
// not wait for a sample, and it makes writes dear for the one for whom they are done.
//
// A bucket begins in debt, by what an agent that was ended at the worst moment can have
// left behind. So a restart, of the agent or of the container, gives nothing, however
// often it happens.
//
// # The promise
//
// At any time since a container was first seen,
//
//	used <= limit x time + Slack
//
// whatever it demands, whatever its CPUs have idle and whatever goes wrong; see [Slack].
// While ticks come in time that is two quotas and the kernel's burst, no more than
// without any raising. A tick that is late while a quota is raised adds what the quota
// gives in that time, once, since it is paid back before the next raise. What nobody can
// pay back is what an agent lets pass that is ended while a quota is raised, and does not
// come back soon; whoever ends it in an orderly way should put quotas back first.
//
// [Budget] is a second account, beside this one, for writes that the author of a pod can cause
// by its annotations. It gains what the quota in force gives, raised or not.
//
// # Raising
//
// Quota is raised when the container was throttled, or has used nine tenths of quota and
// kernel burst in a period, and
//
//   - the bucket pays for the write, five ticks of full use, and the reserve below;
//   - the last raise is long enough ago (see Holding);
//   - the CPUs are idle enough (see Headroom) for a raise by an eighth of the limit, or by
//     all that the policy allows.
//
// It goes at once to the highest quota that these allow, never beyond quotaPercent, the
// number of its CPUs, or what a full bucket pays for.
//
// # Holding
//
// A raised quota does not follow demand. It goes back to the limit when
//
//   - the bucket does not hold the reserve any more: the write that lowers it, and what
//     can be used until the next tick;
//   - the container was not throttled for the hold time, and in it no two neighbouring
//     periods needed more than three quarters of one limit and kernel burst together (two,
//     since a burst may fall into two samples). A container that is idle most of the
//     time, and needs more than that every half second, keeps its quota: the peak counts,
//     not the mean;
//   - there is no headroom;
//   - the limit or the policy has changed, somebody else has written the quota, or there
//     were no samples for two seconds.
//
// The hold time is 10 s. It is also the least time between two raises. It doubles, up to
// 160 s, with each raise that follows on another within three hold times, and is halved
// again after six. A raise is followed by at most one step down for headroom and by the
// lowering. So there are no more than eleven writes in any minute, and about three in 160 s
// for a container that keeps going up and down. A write without effect is tried again after 1,
// 2, 4, 8 and then every 10 s. A raise without effect is given up after one second.
//
// Programs that reread their limit: Go sets GOMAXPROCS to the number of CPUs that the
// process may run on, or, if less, to quota/period rounded up and at least 2. Since 1.25
// it does so again, at most once a second, and stops the world when the number changes
// (sysmonUpdateGOMAXPROCS and adjustCgroupGOMAXPROCS in Go 1.26's runtime). Each change of
// quota across a whole number of CPUs is one such stop, so a Go program has no more of
// them than the writes above; a steady one, like the bursts every half second, has one.
//
// # Headroom
//
// Raised quotas share what their CPUs have idle. All means are smoothed over 400 ms, and
// the CPUs' and the containers' alike, so that what a raised container takes from the
// idle time is still its own: for a set of CPUs, the room is
//
//	idle time + what raised containers use - their limits - a margin of 5% of the CPUs
//
// and is apportioned in proportion to the limits: all shares grow together until one has
// what it wants or a set of CPUs has no more; the others go on growing. Where sets overlap,
// each union of overlapping sets is such a set too, which is exact (Hall's condition).
//
// Who has more than four thirds of its share for 300 ms goes back: once to its share, the
// next time to its limit. One who asks newly gets what is left, and others go back to
// their share for it only when their hold time has passed.
//
// # How others do it
//
// Koordinator's koordlet (pkg/koordlet/qosmanager/plugins/cpuburst, read in 2026) has the
// same two means. It multiplies quota by 1.2 in each round with throttling, and by 0.8 in
// each round that its bucket is empty or the node is above a threshold; each step is a
// write. Its bucket gains below 60% of the limit, loses above 100%, does not move in
// between, forgets what is below minus its capacity, begins with a random part of up to
// half its capacity, and does not count what writes give away. With
// cfsQuotaBurstPeriodSeconds below 0, its default, there is no bucket. A container that is
// no longer throttled keeps its raised quota. Whether the node has headroom is one figure
// for all shared CPUs, and containers raise their quotas without regard to each other.
package burst
