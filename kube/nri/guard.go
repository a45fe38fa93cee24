package nri

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// errNoAnswer is wrapped by the error about a handler that panicked or took too long.
var errNoAnswer = errors.New("the handler gave no answer")

// guard calls the handler, one call at a time. It recovers panics, and abandons calls before the
// runtime's time limit, because the runtime drops a plugin that exceeds it: a handler gets three
// quarters of the time, and is abandoned at seven eighths. The answer is then without changes, and
// so are those to requests that arrive while an abandoned call is still running. An error that a
// handler returns does fail the container's creation or start.
type guard struct {
	busy chan struct{} // holds an element while a call is running, even an abandoned one

	mu    sync.Mutex
	stuck bool // the running call is abandoned
}

func newGuard() *guard { return &guard{busy: make(chan struct{}, 1)} }

// requestTimeout is the runtime's default. It applies to requests without a deadline.
const requestTimeout = 2 * time.Second

type answer[T any] struct {
	value T
	err   error
}

// ask calls f and returns its results. The error wraps errNoAnswer if f did not return in time or
// panicked.
func ask[T any](ctx context.Context, g *guard, f func(context.Context) (T, error)) (T, error) {
	limit := requestTimeout
	if deadline, ok := ctx.Deadline(); ok {
		limit = time.Until(deadline)
	}
	abandon, cancel := context.WithTimeout(ctx, limit*7/8)
	defer cancel()
	var none T
	if g.isStuck() {
		return none, fmt.Errorf("%w: an abandoned call still runs", errNoAnswer)
	}
	select {
	case g.busy <- struct{}{}:
	case <-abandon.Done():
		return none, fmt.Errorf("%w: an earlier call still runs", errNoAnswer)
	}
	answers, ended := make(chan answer[T], 1), false
	go func() {
		defer g.end(&ended)
		ctx, cancel := context.WithTimeout(ctx, limit*3/4)
		defer cancel()
		answers <- recovered(ctx, f)
	}()
	select {
	case a := <-answers:
		// The runtime drops a plugin that returns such an error.
		if errors.Is(a.err, context.DeadlineExceeded) || errors.Is(a.err, context.Canceled) {
			return none, fmt.Errorf("%w: %w", errNoAnswer, a.err)
		}
		return a.value, a.err
	case <-abandon.Done():
		g.abandon(&ended)
		return none, fmt.Errorf("%w within %v", errNoAnswer, (limit * 7 / 8).Round(time.Millisecond))
	}
}

func (g *guard) isStuck() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stuck
}

// abandon marks a call as abandoned unless it has ended.
func (g *guard) abandon(ended *bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stuck = !*ended
}

// end lets the next call start.
func (g *guard) end(ended *bool) {
	g.mu.Lock()
	*ended, g.stuck = true, false
	g.mu.Unlock()
	<-g.busy
}

func recovered[T any](ctx context.Context, f func(context.Context) (T, error)) (a answer[T]) {
	defer func() {
		if p := recover(); p != nil {
			a = answer[T]{err: fmt.Errorf("%w: panic: %v\n%s", errNoAnswer, p, debug.Stack())}
		}
	}()
	value, err := f(ctx)
	return answer[T]{value, err}
}

// wait waits until no call is running or ctx ends.
func (g *guard) wait(ctx context.Context) {
	select {
	case g.busy <- struct{}{}:
		<-g.busy
	case <-ctx.Done():
	}
}
