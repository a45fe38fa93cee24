// Package burst decides how far, and for how long, the quotas of containers are raised above their
// limits.
//
//	c := burst.New()
//	decisions = c.Step(&tick, decisions)    // about every 100 ms
//
// A [Tick] is the state of all containers of a node at one moment. [Controller.Step] returns for
// each container the quota it should have and the [Reason]. The package has no clock and does no
// I/O. Ticks may be late or missing.
//
//	Tick: limits, settings and samples         idle time of the CPUs
//	of containers                                        |
//	       v                                             |
//	account.go     the bucket: saved CPU time            |
//	       v                                             v
//	controller.go  lower, hold, or ask ---> headroom.go  share among those raised or
//	       |                                             asking, by apportion.go
//	       +----------------------+----------------------+
//	                              v
//	               Decision: quota, write, reason
//
// A container that uses less than its limit saves the difference in its bucket. When it is
// throttled, or nearly, its quota is raised at once to the highest value that its bucket, its
// policy and the idle time of its CPUs allow. The quota does not follow demand: it is held until
// the container needs no more than its limit, its bucket is nearly empty, or others need the CPUs.
// So, at any time since a container was first seen,
//
//	used <= limit x time + Slack
//
// regardless of its demand, of idle CPUs and of failures. An agent that is killed while a quota is
// raised, and does not restart soon, cannot repay it: an orderly shutdown restores quotas first.
//
// [Budget] is a separate account for writes that the author of a pod can cause through annotations.
//
// Koordinator's koordlet (pkg/koordlet/qosmanager/plugins/cpuburst, read in 2026) also uses kernel
// burst and raised quotas. It multiplies the quota by 1.2 in each round with throttling, and by 0.8
// when its bucket is empty or the node is above a threshold; each step is a write. Its bucket gains
// below 60% of the limit, loses above 100%, discards everything below minus its capacity, starts
// with a random amount, and does not charge for refills caused by writes. By default
// (cfsQuotaBurstPeriodSeconds below 0) there is no bucket. A container that is no longer throttled
// keeps its raised quota. Containers raise their quotas independently of each other.
package burst
