package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"pinfold.dev/pinfold/internal/sleep"
)

// The time between two calls of a child's Ready function is a tenth of the time since its start,
// within these limits. A child that starts slowly, because the machine is busy, is not kept busier
// by that.
const (
	minReadyInterval = 25 * time.Millisecond
	maxReadyInterval = 2 * time.Second
)

// settle is how long a child without a Ready function must run to count as ready.
const settle = time.Second

// maxDoublings limits the pause before a restart.
const maxDoublings = 4

// Child is a supervised process. Its process id changes with every restart.
type Child struct {
	supervisor *Supervisor
	spec       Spec

	// Each context is canceled when its event occurs.
	stopped, ready, ended    context.Context
	stop, setReady, setEnded context.CancelFunc

	mu     sync.Mutex
	status Status
	err    error // why the supervisor gave up
}

func newChild(s *Supervisor, spec Spec) *Child {
	c := &Child{supervisor: s, spec: spec, status: Status{Name: spec.Name, State: Starting, Log: spec.Log}}
	c.stopped, c.stop = context.WithCancel(context.Background())
	c.ready, c.setReady = context.WithCancel(context.Background())
	c.ended, c.setEnded = context.WithCancel(context.Background())
	return c
}

// Spec returns the child's specification.
func (c *Child) Spec() Spec { return c.spec }

// Status returns the child's current status.
func (c *Child) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// WaitReady waits until the child has been ready once. It fails if the child is stopped before, if
// the supervisor gives up on it, or when ctx ends.
func (c *Child) WaitReady(ctx context.Context) error {
	select {
	case <-c.ready.Done():
		return nil
	case <-c.ended.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.err != nil {
			return c.err
		}
		return fmt.Errorf("%s was stopped", c.spec.Name)
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.Canceled) { // the caller gave up; the child has not failed
			return context.Cause(ctx)
		}
		return fmt.Errorf("%s is not ready: %w%s", c.spec.Name, context.Cause(ctx), logTail(c.spec.Log))
	}
}

// Stop kills the child and waits for its end. It may be called more than once.
func (c *Child) Stop() {
	c.stop()
	<-c.ended.Done()
}

// run keeps the child running until it is stopped or fails too often.
func (c *Child) run() {
	defer c.setEnded()
	failures := 0
	for {
		served, err := c.runOnce()
		if c.stopped.Err() != nil {
			break
		}
		if failures++; served {
			failures = 0
		}
		if failures >= c.supervisor.options.MaxFailures {
			c.giveUp(failures, err)
			return
		}
		c.supervisor.options.Logger.Warn("restart", "component", c.spec.Name, "ended", err)
		c.update(func(s *Status) { s.State, s.PID = Waiting, 0 })
		if !sleep.For(c.stopped, c.supervisor.options.Pause<<min(max(0, failures-1), maxDoublings)) {
			break
		}
		c.update(func(s *Status) { s.State = Starting; s.Restarts++ })
	}
	c.update(func(s *Status) { s.State, s.PID = Stopped, 0 })
}

// runOnce runs the process until it ends or the child is stopped. It reports whether the process
// became ready, and returns how it ended, which is never nil: status 0 is a failure as well.
func (c *Child) runOnce() (served bool, err error) {
	log, err := os.OpenFile(c.spec.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return false, fmt.Errorf("open log of %s: %w", c.spec.Name, err)
	}
	defer log.Close()
	command := exec.Command(c.spec.Path, c.spec.Args...)
	command.Dir, command.Env = c.spec.Dir, c.spec.Env
	command.Stdout, command.Stderr = log, log
	if err := c.supervisor.spawn(command); err != nil {
		return false, fmt.Errorf("start %s: %w", c.spec.Name, err)
	}
	c.update(func(s *Status) { s.PID, s.Started = command.Process.Pid, time.Now() })

	exit := make(chan error, 1)
	go func() { exit <- command.Wait() }()
	ctx, cancel := context.WithCancel(c.stopped)
	defer cancel()
	ready := make(chan struct{})
	go c.probe(ctx, ready)

	stopped := c.stopped.Done()
	for {
		select {
		case <-ready:
			served, ready = true, nil
			c.update(func(s *Status) { s.State = Ready })
			c.setReady()
		case <-stopped:
			stopped = nil
			_ = command.Process.Kill() // it may have ended already
		case err := <-exit:
			if err == nil {
				err = errors.New("exit status 0")
			}
			return served, err
		}
	}
}

// probe closes ready when the child serves.
func (c *Child) probe(ctx context.Context, ready chan<- struct{}) {
	if c.spec.Ready == nil {
		if sleep.For(ctx, settle) {
			close(ready)
		}
		return
	}
	for began := time.Now(); ctx.Err() == nil; {
		if c.spec.Ready(ctx) == nil {
			close(ready)
			return
		}
		sleep.For(ctx, min(max(time.Since(began)/10, minReadyInterval), maxReadyInterval))
	}
}

func (c *Child) giveUp(failures int, err error) {
	reason := fmt.Errorf("%s failed %d times in a row without becoming ready (%w)%s",
		c.spec.Name, failures, err, logTail(c.spec.Log))
	c.mu.Lock()
	c.err = reason
	c.mu.Unlock()
	c.update(func(s *Status) { s.State, s.PID = GaveUp, 0 })
	c.supervisor.fail(reason)
}

func (c *Child) update(change func(*Status)) {
	c.mu.Lock()
	change(&c.status)
	c.mu.Unlock()
	c.supervisor.options.Changed()
}
