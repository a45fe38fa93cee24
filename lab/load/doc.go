// Package load sends requests according to a plan and measures their latencies.
//
//	result, err := load.Run(ctx, plan, send)
//	p99 := result.Quantile(0.99)
//
// The plan is an open loop: requests are sent at planned times, whether or not earlier ones were
// answered, like those of many independent users. In a closed loop each client waits for its
// answer, so the load slows down together with a throttled server and hides the throttling.
//
// For the same reason, latency is measured from the planned time of a request, not from the time it
// was sent. If the generator itself is late, that is part of the latency; [Result.Lateness] is an
// upper bound for it.
//
// Batches at exact multiples of the kernel's bandwidth period would always meet the same point of
// the period. Choose an interval without a common factor (503 ms for periods of 100 ms), or use
// [Plan.Jitter] to move each batch.
//
// Every latency is kept, so quantiles are exact. To bound memory and the number of concurrent
// requests, plans are limited; see [Plan.Check].
package load
