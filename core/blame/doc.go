// Package blame computes where the time of threads went: how long each thread ran, slept, was
// throttled, and waited for a CPU, and what ran on that CPU meanwhile. Usage:
//
//	a := blame.New(blame.Options{Start: start, Watched: groups})
//	for e := range events { // in the order of their times
//		a.Add(e)
//	}
//	report := a.Report(end)
//
// Events are those of the scheduler: a CPU switches from one thread to another, a thread wakes up,
// a quota is refilled. Package schedtrace gets them from the kernel.
//
// # States
//
// A thread is in one [State] at a time. Only events change it, so the [Parts] of a thread add up to
// the time for which it was observed. While a thread waits, its time is charged to the thread that
// runs on its CPU, the [Occupant].
//
// The kernel sends no event when the throttling of a thread ends. Instead, a quota's timer refills
// the quota at the edge of a period, and sometimes in between ([Edge]). Then the thread waits for a
// CPU, unless its group is still throttled on that CPU ([StillThrottled]), or a group above it is.
//
// # Wrong and missing events
//
// A Switch away from a thread that was not running shows that an earlier switch was missed
// ([Report.Missed]). The states of both threads are then unknown since their last events. After a
// [Loss], all states are unknown. [Parts.Unknown] counts that time.
package blame
