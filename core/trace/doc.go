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
// [Series.Demand] takes that back as far as it can be. The samples are cut into stretches of
// one enforcement period, each of which ends where the kernel counted throttling, if it did.
// Throttled stretches, and the first after them in which nobody waited, form a run. What was
// used in a run is what was wanted in it, only that it was wanted earlier; so the sum over a
// run stays to the nanosecond, and usage moves to earlier stretches of it. How far?
//
//   - CPUs that waited would have run for no longer. So a stretch can have wanted at most what
//     was used in it and the time that CPUs waited in it, throttled time being summed over
//     CPUs.
//   - A CPU that was idle for a moment had nothing outstanding. Of a stretch, usage and waiting
//     over its length is how many CPUs ran or waited, say 3.4: three did all the time, and a
//     fourth for two fifths of it. The run is seen as layers, one above the other, of one CPU
//     each; usage moves within its layer, and only in rows of stretches in which that layer was
//     never idle, with the one that follows. In these it moves as early as it can. So a few
//     threads that run for long are taken apart from many requests one after the other.
//   - What is usual goes on: of each layer, what it does on average outside of runs stays where
//     it is.
//
// The sampler does not know the phase of the kernel's timer. Throttled time is counted when the
// throttling ends, at a tick of it; so where samples are as long as a period, the waiting may
// have been in the sample before. It was when a whole quota had been used before the sample
// in which the first throttling of a row was counted.
//
// A run that ends with a gap or the recording, still throttled, is open: more was wanted in
// it than was used, and nobody knows how much.
//
// How good that is was found by running the same requests with and without a limit in the
// model of package bandwidth, both kinds of machine, batches and single requests of 5 to 300
// ms, samples of 10 to 100 ms at any phase (TestRecoveredDemand, testdata/recovered.txt).
// The limit that throttles 2% of the periods comes out 33% too low from usage. From the demand
// recovered it is off by 11%, mostly (9%) too high, where the quota was 2 or 3 times the average; at
// 1.3 times the average, when most periods are throttled, by 44%, almost always too high.
//
// What cannot be known: what would have come if there had been no throttling. Clients that wait
// for an answer send less while they wait, loops that never end do not make up for lost time,
// and programs adapt to their limit. None of that is in the recording.
package trace
