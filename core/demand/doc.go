// Package demand generates random CPU demand for simulations: the CPU time that a cgroup wants in
// each period.
//
//	d, err := demand.NewExponential(0.7)     // mean of 0.7 quotas per period
//
// Amounts are multiples of the group's quota: 1 is the CPU time of one period. A group with mean
// demand u has utilisation u. All randomness comes from the source that the caller passes in; a
// source in the same state gives the same demands.
//
// # Independent periods
//
// A [Distribution] is the demand of one period, independent of all others: [Exponential], [Pareto],
// [Poisson], [Gamma], [Lognormal], [Constant], and [Empirical] for measured samples. Each
// constructor takes the wanted mean. The other parameters have their textbook meaning, and the
// scale follows from the mean. CDFs are exact up to floating-point rounding.
//
// A truncated Pareto distribution is conditioned on values up to the bound; it has no probability
// mass at the bound. Its minimum is found by bisection, because the mean increases with it.
//
// # Correlated periods
//
// A [Process] is demand that may depend on earlier periods. Its Start method returns a [Source] in
// a random stationary state, so that many groups start independently.
//
//   - [Replay] plays a recording in order and wraps around at its end.
//   - [Blocks] concatenates pieces of a recording with random lengths and positions (the stationary
//     bootstrap of Politis and Romano, 1994). This preserves autocorrelation up to about the length
//     of a piece: at lag k it is (1 - 1/length)^k of the recording's.
//   - [OnOff] is a number of clients that are on and off for exponentially distributed times.
//   - [Independent] turns a Distribution into a Process.
package demand
