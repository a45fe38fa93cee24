// Package sampler measures CPU usage and throttling of many cgroups (version 1 or 2) at intervals
// down to 1 ms, in one goroutine.
//
//	s, err := sampler.New(fs, sampler.Options{})
//	s.Set(groups)
//	err = s.Run(ctx, func(t *sampler.Tick) error { ... })
//
// # Time
//
// Each interval has a grid of planned times, the multiples of the interval since [Sampler.Run]
// started. A group's default interval is its own enforcement period. So groups with equal periods
// share a grid, and a group whose period changes moves to another grid.
//
// A sample is the difference between two readings of the kernel's counters. Its interval is the
// time between these two readings, by a monotonic clock that is read for each group. The real
// interval is recorded, never the planned one. A sample that covers more than 1.25 times the
// planned interval is marked late. Planned times that passed meanwhile are counted as missed and
// not made up for. So a sampler that cannot keep up takes fewer samples, and never uses all of a
// CPU.
//
// Two effects limit the precision of short intervals:
//
//   - The kernel accounts the time of a running thread when its scheduler looks at it, at the
//     latest at a tick. Usage may lag by a tick (CONFIG_HZ: 1 to 10 ms), and the next sample then
//     shows more CPU time than its interval had.
//   - The phase of the kernel's bandwidth timer is unknown. In a time of one period, the ends of
//     zero, one or two periods may fall.
//
// # Counters
//
// Counters only increase while a group exists. If one is lower than before, the name now refers to
// another group. That interval gets no sample, which leaves a gap that is counted. A group that
// disappears is reported once, and looked for again as long as it is wanted.
//
// Limits change rarely, and reading them takes as long as everything else. They are read every
// [Options.LimitsEvery], spread over the samples, so the limits in a sample are at most that old.
//
// # Waking up
//
// The default clock waits with a sleep.Alarm. The goroutine is locked to its thread only while it
// reads, to measure its CPU time.
package sampler
