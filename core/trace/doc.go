// Package trace holds what was recorded of control groups at fine timescales, and what
// can be computed from that alone. Files of it are read and written by package
// tracefile.
//
// # Statistics per period
//
// [Summarise] gathers the samples of a series, in their order, into bins: a bin is
// complete when its samples together lasted one period, less half the nominal interval
// of sampling. Where samples are as long as a period or longer, each is a bin. The
// figure of a bin is its CPU time over the time that it really lasted, in CPUs, so
// nothing is interpolated. A bin does not go across a gap, and one that a gap or the end
// cuts short counts in the mean only. Bins are weighted with the time that they
// lasted: a late sample that covers five periods counts five times, with its average,
// which may hide a higher one. A quantile q is the smallest figure such that the bins up
// to it last at least q of the time of all bins. It takes O(n log n) for n samples.
//
// # Timescales
//
// [Timescales] says what CPU time was used, at most and in the 99th percentile, in
// windows of every length from one sample to a minute. The largest figure for windows of
// length w is the limit that a group needs in order to be served at timescale w without
// delay: at the enforcement period it is what a plain quota must be, at a longer w what it
// may be if unused time could be saved up for about so long, and at the longest w it
// comes near the average.
//
// A window begins where a sample begins, and slides by one sample. It ends at the edge
// of a sample that is nearest in real time to w later (the later of two), and counts
// when what it covers differs from w by at most half the nominal interval, or by a
// hundredth of w if that is more. Its figure is the CPU time used in it over the time that
// it really covers. So each figure was measured: a late sample is never divided up, and
// windows that would need a part of one are left out ([Scale.Windows] says how many there
// are). No window goes across a gap.
//
// The sums are exact: integers, as differences of prefix sums; one division at the end
// rounds. The 99th percentile is the value at rank ceil(0.99 n) of n windows. For n
// samples and s lengths it takes O(n s) time on average (two indices that only move
// forward, and quickselect), and O(n) memory.
//
// [Lengths] are the lengths: each multiple of the nominal interval up to 32 times,
// from there on multiples that grow by a tenth each, and whichever of 100 ms, 1 s, 10 s
// and a minute are multiples. For samples of 100 ms that is 66 lengths, for samples of
// 1 ms 116.
//
// # Usage is not demand
//
// A throttled group would have used more. Samples in which throttling was counted or
// throttled time passed are throttled samples; figures that they are part of are usage,
// and demand may have been higher (and, as what was held back is made up for later, the
// following ones are higher than demand). [Summary.ThrottledShare] and [Scale.Throttled]
// say how much that concerns.
//
// [Series.Demand] takes that back as far as it can be. Samples in which CPUs waited, and
// those that follow until the group had room, form a run: until a whole period went by in
// which nobody waited, or a sample in which nothing was used. What was used in a run is what
// was wanted in it, only that it was wanted earlier. So usage is moved to earlier samples of
// the run, the first being served first, and a sample can have wanted at most what was used
// in it and the CPU time that waited in it, as CPUs that waited would have run for no
// longer. The sum over a run stays to the nanosecond.
//
// When was it that CPUs waited? The kernel sums throttled time over CPUs, and counts it when
// the throttling ends, at a tick of its period timer. So it lies before that tick, and with
// n CPUs that began to run with the period, for (throttled time)/n, where quota/n + (throttled
// time)/n is the period. The sampler does not know the phase of that timer. When a whole quota
// had been used in the period before the sample in which the first throttling of a run was
// counted, the tick is taken to be at the sample's begin, else at its end; the same for
// those that follow.
package trace
