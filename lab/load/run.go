package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Send sends one request and returns when its answer is there in full.
type Send func(context.Context) error

// outcome is what became of one request.
type outcome struct {
	latency time.Duration
	err     error
	cut     bool // the run was ended while it was under way
}

// Run carries a plan out. When the context is cancelled no more is sent and what is
// under way is given up; the result then tells what happened until then, and the
// error wraps the context's.
func Run(ctx context.Context, plan Plan, send Send) (Result, error) {
	if err := plan.Check(); err != nil {
		return Result{}, fmt.Errorf("plan of the load: %w", err)
	}
	var (
		due      = plan.Due()
		outcomes = make([]outcome, len(due)*plan.Batch)
		result   = Result{Failures: map[string]int{}}
		group    sync.WaitGroup
		begin    = time.Now()
		batches  = 0
	)
	for i, at := range due {
		if !sleepUntil(ctx, begin.Add(at)) {
			break
		}
		result.Lateness = max(result.Lateness, time.Since(begin)-at)
		for j := range plan.Batch {
			group.Go(func() { outcomes[i*plan.Batch+j] = one(ctx, begin.Add(at), plan.Timeout, send) })
		}
		batches++
	}
	group.Wait()
	result.Took = time.Since(begin)
	result.collect(outcomes[:batches*plan.Batch])
	if batches < len(due) || result.Cut > 0 {
		return result, fmt.Errorf("the load was ended after %d of %d batches: %w", batches, len(due), context.Cause(ctx))
	}
	return result, nil
}

// one sends a request that is due at a time, which is now or a little earlier.
func one(ctx context.Context, due time.Time, timeout time.Duration, send Send) outcome {
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

// sleepUntil reports whether the time came before the end of the context.
func sleepUntil(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}
