package load

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"time"
)

// Result is the outcome of a plan.
type Result struct {
	Sent      int
	Latencies []time.Duration // of the answered requests, ascending
	Answered  []Request       // in the order in which they were due
	Began     time.Time
	Failures  map[string]int // number of failed requests, by error message
	Cut       int            // requests abandoned because the run was canceled
	Lateness  time.Duration  // the longest delay between planned and actual start of a batch
	Took      time.Duration  // from the start of the run to the end of the last request
}

// Request is an answered request.
type Request struct {
	Due     time.Duration // since the start of the run
	Latency time.Duration
}

// WriteRequests writes the answered requests as CSV, with the columns start (when it was due) and
// end, in RFC 3339 with nanoseconds.
func (r *Result) WriteRequests(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintln(b, "start,end")
	for _, q := range r.Answered {
		start := r.Began.Add(q.Due).UTC()
		fmt.Fprintf(b, "%s,%s\n", start.Format(time.RFC3339Nano), start.Add(q.Latency).Format(time.RFC3339Nano))
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write the requests: %w", err)
	}
	return nil
}

// collect counts outcomes and sorts latencies.
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
			r.Answered = append(r.Answered, Request{o.due, o.latency})
		}
	}
	slices.Sort(r.Latencies)
}

// Failed returns the number of failed requests.
func (r Result) Failed() int {
	failed := 0
	for _, n := range r.Failures {
		failed += n
	}
	return failed
}

// Mean returns the mean latency, 0 if no request was answered.
func (r Result) Mean() time.Duration {
	if len(r.Latencies) == 0 {
		return 0
	}
	var sum float64 // 5 million latencies of an hour overflow a Duration
	for _, l := range r.Latencies {
		sum += float64(l)
	}
	return time.Duration(math.Round(sum / float64(len(r.Latencies))))
}

// Quantile returns the latency at quantile q by the nearest-rank method: the shortest latency
// within which at least the share q of the answered requests was answered. q is 0.99 for p99 and 1
// for the longest latency. The result is 0 if no request was answered.
func (r Result) Quantile(q float64) time.Duration {
	n := len(r.Latencies)
	if n == 0 {
		return 0
	}
	rank := int(math.Ceil(q*float64(n) - 1e-9)) // in floating point, 0.99 * 100 exceeds 99
	return r.Latencies[min(max(rank, 1), n)-1]
}
