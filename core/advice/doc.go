// Package advice recommends CPU settings for a container from a recording of its usage: limit,
// burst, enforcement period, CPU binding and number of threads. It also computes how many such
// containers fit on a node. Every recommendation carries its reason and its uncertainty, or states
// that there is not enough data.
//
//	goal := advice.DefaultGoal()
//	c, err := advice.ForContainer(ctx, series, nominal, goal, options)
//	n, err := advice.ForNode(ctx, series, nominal, nodeCPUs, limitCPUs, goal, options)
//
// # Method
//
// The demand of each period comes from [trace.Series.Demand]: the usage or, where the container was
// throttled, an estimate of what it would have used. It is replayed in recorded order through
// [bandwidth.NextDebt], which equals the kernel's controller to the nanosecond. One pass over the
// recording gives the result for every burst. The throttle ratio is the share of wall-clock
// periods, not of the periods in which the kernel's timer ran. Raising a limit never throttles an
// additional period, so bisection finds the smallest limit, in steps of 10m CPUs.
//
// The kernel draws the phase of a group's periods at random and keeps it. For load that works in
// step with the periods, such as with a timer of 100 ms, the share of throttled periods depends on
// it: work in the middle of one period counts there as a whole, and work across the border of two
// is halved. Measured with such a load, one limit throttled 0.5% to 2.1%, as the replay at the same
// phase predicts (test/kernel/results.md). So demand is replayed at every phase that the samples show
// ([SampleInterval]), and limits are right on average over them. Slices and ticks of the kernel are
// ignored; TestReplay in test/kernel measures what that costs.
//
// # Limits of the method
//
// Samples as long as a period do not show when in it a thread ran, and the model ignores the other
// groups of the machine. Therefore a recording made under a limit is also replayed under that same
// limit, and a warning is given when the result is far from the kernel's counters. If the kernel
// throttled the container more often than the goal allows and the replay says that it fits, the
// result is "not enough data".
//
// Replayed demand does not react to the limit. Clients that wait for an answer before they send the
// next request send more when they are served faster, and programs that size themselves by their
// limit behave alike. Record without a limit, at the load that is to be served.
//
// # Confidence intervals
//
// Low and high are the ends of a 95% confidence interval ([Confidence]). The computation is
// repeated on about 200 bootstrap recordings of the same length, assembled from random pieces of
// the original ([demand.Blocks]: the stationary bootstrap of Politis and Romano, 1994). A piece
// must be longer than the correlation time of the demand ([demand.BlockLength]). If the recording
// is too short for that, or if the wanted share of throttled periods amounts to fewer than 10
// periods, the result is "not enough data".
//
// What an advised limit throttles in another recording is predicted, too: each of the limits of the
// bootstrap recordings is replayed with another such recording, at one of the phases.
//
// For recordings of 2000 periods of independent demand, the interval contained the right limit in
// 98% of cases, and so did that of another recording (TestLimitOfExponentialDemand). For correlated
// demand it did in 80% to 100% of cases, fewest at a correlation time of 60 periods; read the
// interval as a 90% interval there. Intervals do not cover what a throttled recording hides;
// package trace documents how accurate recovered demand is.
//
// Each limit is also validated: it is fitted to the first half of the recording and judged on the
// second half ([HeldOut]).
//
// # Container
//
// [Limit], [Burst], [Period], [Binding], [Parallelism] and [ScaleOut] are the recommendations.
// [Curve] lists for each burst the results of the replay and of package lindley, which takes the
// same periods in random order. If the first is far above the second, high-demand periods follow
// each other, and burst helps less than the distribution suggests. A longer period has a cost:
// threads can use up the longer quota as fast as before and then wait for the rest of the period.
//
// If the recording has no limit, the recommendations that refer to the present limit refer to the
// advised limit with burst.
//
// # Node
//
// Copies of the container are placed on the node in package interference under the strict rule.
// Each copy is independent, replays random pieces of the recording, and has the limit and burst.
// Bisection finds the largest number of copies that meets its deadline with the wanted probability
// P(WCET = 1), by a margin of two standard errors. The result also states how many copies the
// limits alone allow. If the number found is smaller, burst requires a lower density. At the
// density that the limits allow, demand is scaled until the probability equals the goal: burst is
// safe up to that average utilisation (the rule of thumb is 70%).
//
// Standard errors are those of the simulation. To judge how representative the recording is, the
// same number of copies is simulated from each half of the recording alone. Copies of one service
// behind one load balancer are not independent: they are busy at the same time, and fewer fit.
package advice
