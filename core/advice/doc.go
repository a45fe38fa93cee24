// Package advice says which limit, burst, period and parallelism a container needs, and how
// many such containers fit on a node. It computes that from a recording, and says with each
// number why it is so and how sure it is. Where the recording cannot tell, it says so.
//
// # What is judged
//
// The demand of each period is taken from the recording ([trace.Series.Demand]: the usage, or
// where the container was throttled, what it must have wanted) and put through the kernel's
// bandwidth controller in the order of time, so that bursts that last several periods count as
// they came ([bandwidth.NextDebt], which is the controller to the nanosecond), and one pass over
// the recording answers for every burst. The throttle ratio is the share of
// wall periods, not of those in which the kernel's timer ran. Raising a limit never throttles
// another period, so the smallest limit is found by bisection, in steps of 10m CPUs.
//
// The sampler knows neither when in a period something runs nor the phase of the kernel's timer,
// and the controller is modelled without the other groups of the machine. So a recording under
// a limit is replayed under that limit, too, and a warning says when the result is far from what
// the kernel counted. Where the kernel throttled it more often than is wanted and the replay says
// that it fits, there is not enough data.
//
// A limit that the average nearly uses up has nothing to catch up with; and a hundredth of the
// periods may be a single long wait. Warnings say both.
//
// Replayed demand does not react. Clients that wait for an answer before they send the next
// request send more when they are served faster, and so do programs that size themselves by
// their limit; what the recording does not have cannot be advised for. Record without limit,
// at the load that is to be served.
//
// # How sure it is
//
// Low and high are the ends of a 95% confidence interval. It is found by doing the same with
// some 200 other recordings of the same length, that are strung together of random pieces of
// this one ([demand.Blocks]). Pieces have to last longer than demand remembers
// ([demand.BlockLength]). Where the recording is too short for that, there is not enough data;
// nor where a wanted share of throttled periods amounts to fewer than 10 of them. Random
// numbers come from the caller: the same give the same advice.
//
// Intervals of limits held the right one in 98% of the recordings of 2000 periods of independent
// demand (TestLimitOfExponentialDemand), and in 80% to 100% of demand that remembers, the fewest where
// it does for 60 periods; so read them as nine in ten there. They do not cover what a
// throttled recording hides; package trace says how good recovered demand is.
//
// Each limit is checked, too: fitted to the first half of the recording, and judged on the
// second, which it has not seen ([HeldOut]).
//
// # Container
//
//   - [Limit]: the smallest limit whose throttle ratio is at most the goal's, without burst
//     and with it, rounded up to 10m CPUs.
//   - [Burst]: the smallest, in percent of the quota, that reaches the goal at the present limit,
//     or beyond which the throttle ratio falls no more. The chart beside it, [Curve], has what
//     the replay says for each burst, and what package lindley says when the same periods come
//     in any other order: where the first is far above the second, demand comes in rows of
//     periods, and burst helps less than the distribution promises.
//   - [Period]: the shortest enforcement period, from the present one to the kernel's second,
//     whose throttle ratio without burst is at most the goal's, at the present limit. The samples
//     are put together to such periods anew. What it costs: threads may use up the
//     longer quota as fast as before, and then wait for the rest of the period.
//   - [Binding]: at the timescale of the samples, work is queued behind as many CPUs as the
//     limit has. When work seldom waits there, binding takes little away, and what it gives
//     (caches, memory nearby) is a gain. When it does wait, requests that come together queue,
//     and binding is no silver bullet.
//   - [Parallelism]: as many threads at a time as quota and burst can feed for one whole period.
//     More of them use it up sooner, and then all wait together.
//   - [ScaleOut]: above half of the limit on average, little is left unused to save up for
//     bursts: more load takes more replicas, or a higher limit.
//
// All that is said of a present limit is said of the advised one with burst where none was
// recorded.
//
// # Node
//
// A number of such containers is put on the node in package interference: independent copies of
// the recording, each strung together of its pieces, with limit and burst, under the strict
// rule. The largest number that meets its deadline with the wanted probability P(WCET = 1) is
// found by bisection; a number counts as met when it is so by two standard errors. It
// stands beside how many the limits alone allow. When it is smaller, burst needs less density
// first. At the density that the limits allow, demand is scaled until the probability is the wanted
// one: up to that average utilisation burst is safe there (the rule of thumb says 70%).
//
// Standard errors are those of the simulation. How far the recording can be trusted, the two
// halves of it show: the same number of copies of each half alone. Copies of one service behind
// one load balancer are not independent: they are busy together, and fewer fit.
package advice
