// Package load sends requests and measures their latencies.
//
//	result, err := load.Run(ctx, plan, send) // or clients
//	p99 := result.Quantile(0.99)
//
// A [Plan] is an open loop: requests are sent at planned times, whether or not earlier ones were
// answered, like those of many independent users. In a closed loop each client waits for its
// answer, so the load slows down together with a throttled server and hides the throttling.
//
// For the same reason, latency is measured from the planned time of a request, not from the time it
// was sent. If the generator itself is late, that is part of the latency. [Result.Lateness] shows
// how late batches were started.
//
// Batches at exact multiples of the kernel's bandwidth period would always meet the same point of
// the period. Choose an interval without a common factor (503 ms for periods of 100 ms), or use
// [Plan.Jitter] to move each batch.
//
// Every latency is kept, so quantiles are exact. To bound memory and the number of concurrent
// requests, plans are limited; see [Plan.Check].
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"pinfold.dev/pinfold/internal/sleep"
)

// Send sends one request and returns when it has received the complete answer.
type Send func(context.Context) error

// outcome is the outcome of one request.
type outcome struct {
	due     time.Duration // since the start of the run
	latency time.Duration
	err     error
	cut     bool // abandoned because the run was canceled
}

// alarm wakes a goroutine at a time, more precisely than [time.Sleep], which waits in whole
// milliseconds.
type (
	alarm interface {
		Wait(until time.Time) error
		Close()
	}
	alarms func(context.Context) (alarm, error)
)

func newAlarm(ctx context.Context) (alarm, error) { return sleep.NewAlarm(ctx) }

// Load is a [Plan] or [Clients].
type Load interface {
	// Check returns an error that names everything that is wrong with the load.
	Check() error
	length() time.Duration
	// run sends the requests. If ctx ends, it stops, and may return its error.
	run(ctx context.Context, begin time.Time, send Send, newAlarm alarms) (outcomes []outcome, lateness time.Duration, err error)
}

// Run sends the requests of a load. When ctx ends, it stops sending and abandons the pending
// requests; it then returns the result up to that moment, and an error that wraps the cause.
func Run(ctx context.Context, l Load, send Send) (Result, error) {
	return run(ctx, l, send, newAlarm)
}

func run(ctx context.Context, l Load, send Send, newAlarm alarms) (Result, error) {
	if err := l.Check(); err != nil {
		return Result{}, fmt.Errorf("load: %w", err)
	}
	result := Result{Failures: map[string]int{}, Began: time.Now()}
	outcomes, lateness, err := l.run(ctx, result.Began, send, newAlarm)
	result.Took, result.Lateness = time.Since(result.Began), lateness
	result.collect(outcomes)
	if err != nil || result.Cut > 0 {
		err = fmt.Errorf("the load was ended after %v of %v: %w", result.Took.Round(time.Millisecond), l.length(), cmp.Or(context.Cause(ctx), err))
	}
	return result, err
}

// sendOne sends one request. Its planned time, due since the beginning, is now or a little earlier.
func sendOne(ctx context.Context, begin time.Time, due, timeout time.Duration, send Send) outcome {
	bounded, cancel := context.WithDeadline(ctx, begin.Add(due+timeout))
	defer cancel()
	err := send(bounded)
	o := outcome{due: due, latency: time.Since(begin) - due, err: err}
	switch {
	case err != nil && ctx.Err() != nil:
		o.cut = true
	case errors.Is(err, context.DeadlineExceeded):
		o.err = fmt.Errorf("no answer within %v", timeout)
	}
	return o
}
