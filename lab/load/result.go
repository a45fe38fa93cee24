package load

import (
	"math"
	"slices"
	"time"
)

// Result is what became of a plan's requests.
type Result struct {
	Sent      int
	Latencies []time.Duration // of those that were answered, the shortest first
	Failures  map[string]int  // how many failed, by their error
	Cut       int             // given up because the run was ended
	Lateness  time.Duration   // the most that a batch left after it was due
	Took      time.Duration   // from the first batch to the last answer
}

// collect sorts out what became of each request.
func (r *Result) collect(outcomes []outcome) {
	r.Sent = len(outcomes)
	for _, o := range outcomes {
		switch {
		case o.cut:
			r.Cut++
		case o.err != nil:
			r.Failures[o.err.Error()]++
		default:
			r.Latencies = append(r.Latencies, o.latency)
		}
	}
	slices.Sort(r.Latencies)
}

// Failed is the number of requests that failed.
func (r Result) Failed() int {
	failed := 0
	for _, n := range r.Failures {
		failed += n
	}
	return failed
}

// Mean is that of the latencies, 0 when there are none.
func (r Result) Mean() time.Duration {
	if len(r.Latencies) == 0 {
		return 0
	}
	var sum float64 // 5 million times an hour would not fit a Duration
	for _, l := range r.Latencies {
		sum += float64(l)
	}
	return time.Duration(math.Round(sum / float64(len(r.Latencies))))
}

// Quantile returns the shortest latency that at least the share q of all does not
// exceed (nearest rank): 0.99 for p99, 1 for the longest. It is 0 when there are
// no latencies.
func (r Result) Quantile(q float64) time.Duration {
	n := len(r.Latencies)
	if n == 0 {
		return 0
	}
	rank := int(math.Ceil(q*float64(n) - 1e-9)) // 0.99 * 100 is a little more than 99
	return r.Latencies[min(max(rank, 1), n)-1]
}
