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
// # Periods that remember
//
// A [Process] is demand that may depend on what was before, and Start gives a [Source]
// of it in a random state of the long run, so that many groups begin independently.
// [Replay] goes through a recording in its order, from its end back to its beginning.
// [Blocks] strings together pieces of it, of random length and from random places (the
// stationary bootstrap of Politis and Romano, 1994), which keeps the autocorrelation for
// about the length of a piece: at lag k, it is (1 - 1/length)^k of the recording's own.
// [OnOff] is a number of clients that are on and off for exponential times. [Independent]
// makes a Process of a Distribution.
//
// All randomness comes from the source that is passed in; a source in the same state
// gives the same demands.
package demand
