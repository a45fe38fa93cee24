// Package blame computes where the time of threads went: how long each ran, slept, was throttled, and
// waited for a CPU, and behind what. Usage:
//
//	a := blame.New(blame.Options{Start: start, Watched: groups})
//	for e := range events { // in the order of their times
//		a.Add(e)
//	}
//	report := a.Report(end)
//
// Events are those of the scheduler: a CPU switches from one thread to another, a thread wakes up, a
// quota is refilled. Package schedtrace gets them from the kernel.
//
// # States
//
// A thread is in one [State] at a time. It changes only with an event, so the time of a thread is
// covered without gaps and its [Parts] add up to the time for which it was observed. While a thread
// waits, its time is charged to the thread that runs on its CPU, its [Occupant].
//
// No event says that the throttling of a thread ends. A quota's timer hands out CPU time at the edge of
// a period, and sometimes in between ([Edge]). From then on the thread waits for a CPU, unless the
// group is still throttled on the CPU ([StillThrottled]), or another group above it is.
//
// # Wrong and missing events
//
// If a thread stops running that did not run, the CPU has switched to it without an event
// ([Report.Missed]), and the states of the threads concerned were unknown since their last event. After a
// [Loss] no state is known. Unknown time is a part of its own ([Parts.Unknown]).
package blame
