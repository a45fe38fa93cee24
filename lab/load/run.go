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
	"sync"
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

// Run sends the requests of plan. When ctx ends, it stops sending and abandons the pending
// requests; it then returns the result up to that moment, and an error that wraps the cause.
func Run(ctx context.Context, plan Plan, send Send) (Result, error) {
	return run(ctx, plan, send, newAlarm)
}

func run(ctx context.Context, plan Plan, send Send, newAlarm alarms) (Result, error) {
	if err := plan.Check(); err != nil {
		return Result{}, fmt.Errorf("plan of the load: %w", err)
	}
	alarm, err := newAlarm(ctx)
	if err != nil {
		return Result{}, err
	}
	defer alarm.Close()
	var (
		due      = plan.due()
		outcomes = make([]outcome, len(due)*plan.Batch)
		group    sync.WaitGroup
		begin    = time.Now()
		result   = Result{Failures: map[string]int{}, Began: begin}
		batches  = 0
	)
	for i, at := range due {
		if err = alarm.Wait(begin.Add(at)); err != nil {
			break
		}
		result.Lateness = max(result.Lateness, time.Since(begin)-at)
		for j := range plan.Batch {
			group.Go(func() {
				o := sendOne(ctx, begin.Add(at), plan.Timeout, send)
				o.due = at
				outcomes[i*plan.Batch+j] = o
			})
		}
		batches++
	}
	group.Wait()
	result.Took = time.Since(begin)
	result.collect(outcomes[:batches*plan.Batch])
	if batches < len(due) || result.Cut > 0 {
		return result, fmt.Errorf("the load was ended after %d of %d batches: %w", batches, len(due), cmp.Or(context.Cause(ctx), err))
	}
	return result, nil
}

// sendOne sends one request. Its planned time, due, is now or a little earlier.
func sendOne(ctx context.Context, due time.Time, timeout time.Duration, send Send) outcome {
	bounded, cancel := context.WithDeadline(ctx, due.Add(timeout))
	defer cancel()
	err := send(bounded)
	latency := time.Since(due)
	switch {
	case err != nil && ctx.Err() != nil:
		return outcome{cut: true}
	case errors.Is(err, context.DeadlineExceeded):
		return outcome{err: fmt.Errorf("no answer within %v", timeout)}
	}
	return outcome{latency: latency, err: err}
}
