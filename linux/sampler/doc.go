// Package sampler measures what control groups use, and how they are throttled, at
// intervals down to 1 ms: many groups of version 1 or 2, in one goroutine.
//
// # Time
//
// Each interval has a grid of planned moments, the multiples of the interval since [Sampler.Run]
// began. The default interval of a group is its own period, so that groups of one
// period share a grid, and a group whose period is changed moves to another.
//
// A sample is the difference between two readings of the kernel's counters. Its
// interval is the time between these two readings, by a monotonic clock that is read
// for each group. What is planned is never taken for what was: a sample that covers more than a
// quarter more than the planned interval is marked late, and planned moments that have gone
// by meanwhile are missed ones, which are counted and not made up for. So a
// sampler that cannot keep up takes fewer samples, and never all of a CPU.
//
// Two things limit what a short interval tells. The kernel books the time of a running thread
// when its scheduler looks at it, at a tick at the latest: usage may lag by a tick (CONFIG_HZ:
// 1 to 10 ms), and the next sample then shows more CPU time than its interval had.
// And periods are where the kernel's timer puts them: in one period's time there may be the end of
// none, one or two.
//
// # Counters
//
// They only go up, while a group lives. When one of them is lower than before, something
// else stands behind the name: that interval gets no sample, which leaves a gap that is
// counted. A group that vanishes is reported once, and looked for again as long as
// it is wanted.
//
// Limits change rarely, and reading them takes as long as all the rest. They are read
// every [Options.LimitsEvery], spread over the samples; what a sample says of limits is that old at most.
//
// # Waking up
//
// The system's clock waits on a timer descriptor (timerfd_create(2)) by way of the Go runtime's
// poller. Measured on a 2-CPU virtual machine with Linux 6.18 and other load, Go 1.26, at
// 1 ms, median and 99th percentile of being late: time.Sleep 580 and 1100 us, since the runtime
// waits in whole milliseconds; clock_nanosleep 88 and 146 us, on a thread without
// timer slack 33 and 99 us; this 34 and 77 us, at the same CPU time, and it can be
// cancelled and holds no thread. With a goroutine locked to its thread it was 51
// and 750 us, so it is locked only while it reads, to know its CPU time.
package sampler
