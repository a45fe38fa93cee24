// Package interference simulates how CPU bursts of many cgroups on one machine affect each other.
// [Simulate] estimates by Monte Carlo how often groups miss their deadlines, are throttled and use
// burst, with standard errors.
//
//	result, err := interference.Simulate(ctx, interference.Config{...})
//
// Groups share a machine of fixed capacity. Each group has a quota per period, saves unused quota
// as tokens up to its burst, and draws a demand in each period. Its need is demand plus backlog. In
// each period:
//
//   - Each group first gets what it needs up to its quota.
//   - The remaining capacity is free. Groups that need more get as much of it as they have tokens.
//   - If the free capacity does not cover that, it is divided in proportion to the quotas, and no
//     group gets more than it wants (water-filling).
//   - Unmet need becomes backlog.
//
// A group is throttled in a period when its need exceeds its quota plus its tokens. The WCET of a
// period is the number of periods until the demand submitted in it is finished: 1 if it meets its
// deadline, otherwise one more than that of the next period. A [Rule] defines what a missed
// deadline is.
//
// If the quotas sum to more than the capacity, even the need within the quotas may not fit. The
// capacity is then divided in the same way, no token is used, and the period counts as missed under
// both rules.
//
// That is the published model, in which the periods of all groups begin together. In the kernel each
// group's begin at a time of its own. With [Apart], periods are divided into slots: a group's quota is
// refilled in a slot of its own, its demand comes slot by slot, and the capacity of each slot is
// divided among all that quotas and tokens let through, in proportion to the quotas. So a group can
// use its quota at the end of one period and again at the beginning of the next.
//
//	Config    groups, capacity, rule
//	   v
//	plan.go          amounts as integers, warm-up, engine
//	   v
//	montecarlo.go    64 replicas with their own random sources
//	   v
//	replica.go       periods: engine.go, if all groups are equal and fill the capacity, or mixed.go,
//	   v             or slotted.go; demands from draw.go or package demand
//	results.go       Result, with standard errors
//
// A replica depends only on its source, so the result does not depend on the number of threads.
package interference
