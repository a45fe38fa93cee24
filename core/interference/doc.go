// Package interference simulates how CPU bursts of many cgroups on one machine affect each other.
// [Simulate] estimates by Monte Carlo how often groups miss their deadlines, are throttled and use
// burst, with standard errors.
//
//	result, err := interference.Simulate(ctx, interference.Config{...})
//
// # The model
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
// # Staggered periods
//
// In this model all periods begin together. In the kernel the quota of each group is refilled at a
// time of its own. The rule [Staggered] is a model of that: demand still comes at the begin of a
// period, but each quota is refilled at a random time in it, always the same one in a replica (more
// than 16 groups share 16 times). So a group may use what is left of one quota and then the next,
// and groups want more at the same time than with periods that begin together.
//
//   - At each moment, the groups that have need, and quota or tokens left, share the capacity in
//     proportion to their quotas.
//   - A group is throttled in a quota period if it needs more when its quota and tokens are used up.
//   - A period misses its deadline if there is something left in it of what a group could have
//     used, by its need, quota and tokens, a period earlier: at the begin or after the refill.
//
// With all refills at the begin of the period, the results are those of the model above.
//
// # Monte Carlo
//
// [Simulate] runs 64 replicas of the model ([Replicas]), each with its own random source. A replica
// starts idle with full tokens and counts after a warm-up of 20/(1-load)^2 periods, because backlog
// takes the order of 1/(1-load)^2 periods to be forgotten. Correlated or very uneven demand takes
// longer: a random walk with drift d whose sum over n periods has the variance n v forgets its
// start in about 2 v/d^2 periods. v is estimated from the spread of the replicas' demand over the
// warm-up, and the warm-up continues until it has lasted four times that long.
//
// The replicas are the batches of the method of batch means. They are independent, so their spread
// gives standard errors however the periods depend on each other. A replica depends only on its
// source, so the result does not depend on the number of threads.
//
// Amounts are 64-bit integers scaled so that the smallest quota is close to 2^32. Whether a sum
// exceeds the capacity is decided exactly. If all groups are equal and fill the capacity, one
// branch-free loop does everything except the division of free capacity. It relies on this: with D
// = backlog - tokens, a group is throttled when D > 0, and regardless of the neighbours D' = max(D
// + X - quota, -burst) for the demand X. Exponential and Pareto demands come from an inlined
// ziggurat, all others from package demand.
//
// The mean of all draws is compared with the configured mean. The simulation fails if they differ
// by more than eight standard errors.
package interference
