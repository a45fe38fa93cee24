package nri

import (
	"context"
	"errors"
	"net"
	"time"

	"pinfold.dev/pinfold/internal/sleep"
)

// Run connects to the runtime, serves its requests by the handler, and connects again whenever the
// connection ends. It returns nil when ctx has ended, after the last call of the handler has, and
// an error only for options that no runtime would take.
func Run(ctx context.Context, options Options, handler Handler) error {
	options = options.withDefaults()
	if err := options.check(); err != nil {
		return err
	}
	r := &runner{options: options, handler: handler, guard: newGuard(), containers: newTracker(),
		backoff: backoff{jitter: options.Jitter}}
	for ctx.Err() == nil {
		err := r.connect(ctx)
		if ctx.Err() != nil {
			break
		}
		r.report(State{Err: err})
		sleep.For(ctx, r.backoff.pause())
	}
	// A handler that minds its context has ended by now; one that does not is given the time that
	// the runtime would have given it.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	r.guard.wait(last)
	return nil
}

type runner struct {
	options    Options
	handler    Handler
	guard      *guard
	containers *tracker
	backoff    backoff
	told       bool  // whether a state was told
	last       State // what was told
}

// connect makes one connection and serves it to its end.
func (r *runner) connect(ctx context.Context) error {
	conn, err := (&net.Dialer{Timeout: registrationTimeout}).DialContext(ctx, "unix", r.options.Socket)
	if err != nil {
		return explainDial(r.options.Socket, err)
	}
	synced := make(chan string, 1)
	s, err := newService(&plugin{options: r.options, handler: r.handler, guard: r.guard, containers: r.containers}, synced)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithCancel(ctx) // ends handlers that nobody waits for any more
		defer cancel()
		ended <- s.serve(ctx, conn, r.options)
	}()
	return r.follow(synced, ended)
}

// follow tells the state of a connection until it has ended.
func (r *runner) follow(synced <-chan string, ended <-chan error) error {
	// A runtime can be busy for as long as it creates containers; that is told only when it takes
	// long.
	patience := time.NewTimer(registrationTimeout)
	defer patience.Stop()
	var since time.Time
	for {
		select {
		case runtime := <-synced:
			patience.Stop()
			since = time.Now()
			r.report(State{Connected: true, Runtime: runtime})
		case <-patience.C:
			r.report(State{Err: ErrWaiting})
		case err := <-ended:
			if !since.IsZero() && time.Since(since) >= maxPause {
				r.backoff.reset()
			}
			return err
		}
	}
}

// report tells a state that differs from the last one told. What it means that there is no
// connection, and how often to say so, is for OnState.
func (r *runner) report(s State) {
	if r.told && s.Connected == r.last.Connected && s.Runtime == r.last.Runtime && text(s.Err) == text(r.last.Err) {
		return
	}
	r.told, r.last = true, s
	if s.Connected {
		r.options.Logger.Info("connected to the container runtime by NRI", "runtime", s.Runtime, "socket", r.options.Socket)
	}
	r.options.OnState(s)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
