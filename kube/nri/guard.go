package nri

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// errNoAnswer is what a handler has said that panicked or took too long: nothing.
var errNoAnswer = errors.New("the handler gave no answer")

// guard calls the handler: one call at a time, none for longer than the runtime can wait, and no
// panic gets through.
type guard struct {
	busy chan struct{} // holds an element while a call runs, abandoned ones included

	mu    sync.Mutex
	stuck bool // the call that runs is abandoned
}

func newGuard() *guard { return &guard{busy: make(chan struct{}, 1)} }

// requestTimeout is the runtime's default; its requests carry their own deadline.
const requestTimeout = 2 * time.Second

type answer[T any] struct {
	value T
	err   error
}

// ask returns what f does. Its error wraps errNoAnswer when f did not come to an end of its own
// will.
func ask[T any](ctx context.Context, g *guard, f func(context.Context) (T, error)) (T, error) {
	left := requestTimeout
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	abandon, cancel := context.WithTimeout(ctx, left*7/8)
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
		ctx, cancel := context.WithTimeout(ctx, left*3/4)
		defer cancel()
		answers <- recovered(ctx, f)
	}()
	select {
	case a := <-answers:
		// The runtime drops a plugin that answers with such an error.
		if errors.Is(a.err, context.DeadlineExceeded) || errors.Is(a.err, context.Canceled) {
			return none, fmt.Errorf("%w: %w", errNoAnswer, a.err)
		}
		return a.value, a.err
	case <-abandon.Done():
		g.abandon(&ended)
		return none, fmt.Errorf("%w within %v", errNoAnswer, (left * 7 / 8).Round(time.Millisecond))
	}
}

func (g *guard) isStuck() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stuck
}

// abandon gives up a call unless it has ended.
func (g *guard) abandon(ended *bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stuck = !*ended
}

// end makes way for the next call.
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

// wait returns when no call runs any more, or ctx ends.
func (g *guard) wait(ctx context.Context) {
	select {
	case g.busy <- struct{}{}:
		<-g.busy
	case <-ctx.Done():
	}
}
