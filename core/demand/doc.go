// Package demand draws the CPU time that a control group wants in each period.
//
// Amounts are multiples of the group's quota: 1 is all that one period gives. A group
// whose mean demand is u is said to have utilisation u.
//
// # Independent periods
//
// A [Distribution] is the demand of one period, independent of all others: [Exponential],
// [Pareto], [Poisson], [Gamma], [Lognormal], [Constant], and [Empirical] for what was
// measured. Each is made with a wanted mean, and the other parameters keep the meaning
// that they have in textbooks; the scale follows from the mean. Their CDFs are exact, to
// the rounding of floating-point numbers.
//
// A Pareto distribution may be truncated: then it is that of demands that happen to be
// no larger than the bound, not a heap at the bound. Its minimum is found by bisection,
// as the mean grows with it.
//
// All randomness comes from the source that is passed in; a source in the same state
// gives the same demands.
package demand
