// Package interference says what burst does to the neighbours.
//
// # The model
//
// Groups share a machine of some capacity. Each has a quota per period, saves what it
// does not use of it as tokens, up to its burst, and draws a demand in each period. What
// it needs in a period is its demand and its backlog. Each gets what it needs of its
// quota; what that leaves of the capacity is free, and those which need more may have
// as much of it as they have tokens. When that does not suffice for all, it is shared out in
// proportion to the quotas, and no group gets more than it wants (water-filling). What is
// not met is backlog. A group is throttled in a period when it needs more than its quota
// and its tokens. The WCET of a period is the number of periods until the demand
// submitted in it is finished: 1 when it meets its deadline, else one more than that of the
// next. A [Rule] says what a missed deadline is.
//
// When the quotas sum to more than the capacity, even what groups need of their quotas may
// not fit. Then the capacity is shared out in the same way, no token is used, and the
// period counts as missed under both rules.
//
// # Monte Carlo
//
// [Simulate] runs 64 replicas of the model, each with a random source of its own. Each
// begins idle with full tokens, and counts after a warm-up of 20/(1-load)^2 periods, as
// backlog takes the order of 1/(1-load)^2 periods to be forgotten. Where demand remembers or
// is very uneven that takes longer: a random walk with drift d whose sum over n periods has the
// variance n v forgets its end in about 2 v/d^2 periods. v is what the replicas' demand differs
// by over the warm-up, which goes on until it lasted four times as long. The replicas are the batches of the method of batch
// means: they are independent, so their spread gives standard errors however periods depend
// on each other. As a replica depends on nothing but its source, the number of threads does
// not change the result.
//
// Amounts are 64-bit integers, the smallest quota being close to 2^32; whether a sum
// exceeds the capacity is decided exactly. Where all groups are alike and fill the
// capacity, one loop without branches does all but the sharing. It rests on this: with
// D = backlog - tokens, a group is throttled when D > 0, and whatever the neighbours do,
// D' = max(D + X - quota, -burst) for the demand X. Exponential and Pareto demands
// come from an inline ziggurat, all others from package demand.
//
// The mean of all draws is compared with what was asked; a simulation fails when they
// differ by more than eight standard errors.
package interference
