// Package trace holds recordings of the CPU usage and throttling of cgroups at fine timescales, and
// computes statistics from them. Package tracefile reads and writes them as files.
//
//	summary := trace.Summarise(series, nominal)   // statistics per enforcement period
//	scales := trace.Timescales(series, nominal)   // maximum and P99 usage per window length
//	demand, err := series.Demand(nominal, period) // usage corrected for throttling
//
// # Statistics per period
//
// [Summarise] groups consecutive samples of a series into bins. A bin is complete when its samples
// together lasted one period, less half the nominal sampling interval. If samples are as long as a
// period or longer, each sample is a bin. The value of a bin is its CPU time divided by its real
// duration, in CPUs; nothing is interpolated. A bin does not span a gap, and a bin that a gap or
// the end cuts short counts only towards the mean.
//
// Bins are weighted by their duration: a late sample that covers five periods counts five times,
// with its average, which may hide a higher peak. A quantile q is the smallest value such that the
// bins up to it last at least q of the total time. The cost is O(n log n) for n samples.
//
// # Timescales
//
// [Timescales] computes the maximum and the 99th percentile of usage in windows of every length
// from one sample to a minute. The maximum for windows of length w is the limit that a group needs
// in order to be served at timescale w without delay. At the enforcement period it is what a plain
// quota must be. At a longer w it is what the quota may be if unused time can be saved up for about
// that long. At the longest w it approaches the average.
//
// A window starts where a sample starts and slides by one sample. It ends at the sample edge
// nearest in real time to w later (the later of two). It counts if the time it covers differs from
// w by at most half the nominal interval, or one hundredth of w if that is more. Its value is the
// CPU time used in it divided by the time it really covers. So every value was measured: late
// samples are never divided, and windows that would need part of one are omitted ([Scale.Windows]
// is the number that remain). No window spans a gap.
//
// Sums are exact integers, computed as differences of prefix sums; one division at the end rounds.
// The 99th percentile is the value at rank ceil(0.99 n) of n windows. For n samples and s lengths
// the cost is O(n s) time on average (two indices that only advance, and quickselect) and O(n)
// memory.
//
// [Lengths] returns the window lengths: each multiple of the nominal interval up to 32 times, then
// multiples that grow by a tenth each, plus those of 100 ms, 1 s, 10 s and a minute that are
// multiples. That is 66 lengths for samples of 100 ms and 116 for samples of 1 ms.
//
// # Usage is not demand
//
// A throttled group would have used more. Samples in which throttling was counted or throttled time
// passed are throttled samples. Values that include them are usage; demand may have been higher.
// The following samples show more than demand, because delayed work is done then.
// [Summary.ThrottledShare] and [Scale.Throttled] report how much of the data is affected.
//
// [Series.Demand] recovers demand as far as possible. The samples are cut into segments of one
// enforcement period, each ending where the kernel counted throttling, if it did. Throttled
// segments, and the first segment after them in which nothing waited, form a run. The CPU time used
// in a run equals the demand in it, but the demand came earlier. So the sum over a run is preserved
// to the nanosecond, and usage moves to earlier segments of the run, within these bounds:
//
//   - A CPU that waited would have run for no longer than it waited. So the demand of a segment is
//     at most its usage plus its waiting time, where waiting time is throttled time summed over
//     CPUs.
//   - A CPU that was idle for a moment had no outstanding work. Usage plus waiting time, divided by
//     the length of a segment, is the number of CPUs that ran or waited, say 3.4: three did all the
//     time, and a fourth for two fifths of it. The run is viewed as stacked layers of one CPU each.
//     Usage moves only within its layer, and only within a sequence of segments in which that layer
//     was never idle, plus the segment that follows. There it moves as early as possible. This
//     separates a few long-running threads from many consecutive requests.
//   - Normal load continues: in each layer, the average usage outside of runs is not moved.
//
// The sampler does not know the phase of the kernel's timer. Throttled time is counted when the
// throttling ends, at a tick of that timer. So if samples are as long as a period, the waiting may
// belong to the previous sample. It is assigned to the previous sample if a whole quota had been
// used before the sample in which the first throttling of a sequence was counted.
//
// A run that is still throttled at a gap or at the end of the recording is open: its demand exceeds
// its usage by an unknown amount.
//
// Accuracy was measured by running the same requests with and without a limit in the model of
// package bandwidthtest, with batches and single requests of 5 to 300 ms, and samples of 10 to
// 100 ms at any phase (TestRecoveredDemand, testdata/recovered.txt). The limit that throttles 2% of
// the periods comes out 35% too low from usage. From recovered demand it is off by 12%, mostly (10%)
// too high, if the quota was 2 or 3 times the average. At 1.3 times the average, when most periods
// are throttled, it is off by 52%, almost always too high.
//
// If the threads were traced ([Exact]), nothing is estimated. A thread that was throttled is late
// until it sleeps for a millisecond: what it runs then moves to earlier, by the time for which it
// was throttled since it was last on time. So a thread wants one CPU at most, and no time is lost.
// Time for which threads waited for a CPU is not removed, but [Series.Unhindered] does that. A
// thread that takes one request after the other from a queue, without sleeping, seems to want all
// of them at once.
//
// Demand that never arrived because of throttling cannot be recovered. Clients that wait for an
// answer send less while they wait, infinite loops do not make up for lost time, and programs adapt
// to their limit. None of that is in the recording.
package trace
