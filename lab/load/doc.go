// Package load sends requests by a plan and tells how long each took.
//
// The plan is open: requests leave when it says so, whether earlier ones were answered
// or not, as those of many independent users would. A closed loop, in which each
// client waits for its answer, slows down together with a server that is throttled,
// and so hides what it should show.
//
// For the same reason a latency counts from the moment at which the request was due,
// not from the one at which it left. Should the generator itself be late, that is in
// the latencies, and [Result.Lateness] tells how much of them it can be.
//
// Batches at exactly a multiple of the kernel's bandwidth period would always meet the
// same point of it. Choose an interval that shares no factor with it (503 ms for
// periods of 100 ms), or let [Plan.Jitter] move each batch.
//
// Every latency is kept, so quantiles are exact. That, and the number of requests that
// can be under way, is why plans are bounded; see [Plan.Check].
package load
