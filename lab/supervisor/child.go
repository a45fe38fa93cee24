package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"pinfold.dev/pinfold/internal/sleep"
)

// readyInterval is the time between two calls of a child's Ready function.
const readyInterval = 25 * time.Millisecond

// maxDoublings bounds the pause before a restart.
const maxDoublings = 4

// Child is one supervised process: the same work under changing process ids.
type Child struct {
	supervisor *Supervisor
	spec       Spec

	stop     chan struct{} // closed: end, with grace
	abort    chan struct{} // closed: end, now
	done     chan struct{} // closed: it has ended and will not come back
	ready    chan struct{} // closed when it became ready for the first time
	stopOnce sync.Once
	killOnce sync.Once
	readied  sync.Once

	mu     sync.Mutex
	status Status
	err    error // why the supervisor gave up
}

func newChild(s *Supervisor, spec Spec) *Child {
	return &Child{
		supervisor: s,
		spec:       spec,
		stop:       make(chan struct{}),
		abort:      make(chan struct{}),
		done:       make(chan struct{}),
		ready:      make(chan struct{}),
		status:     Status{Name: spec.Name, State: Starting, Log: spec.Log},
	}
}

// Spec returns how the child is run.
func (c *Child) Spec() Spec { return c.spec }

// Status returns what is known about the child now.
func (c *Child) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// WaitReady returns when the child has been ready once, or cannot be.
func (c *Child) WaitReady(ctx context.Context) error {
	select {
	case <-c.ready:
		return nil
	case <-c.done:
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.err != nil {
			return c.err
		}
		return fmt.Errorf("%s was stopped", c.spec.Name)
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.Canceled) { // somebody changed their mind: no fault of the child
			return context.Cause(ctx)
		}
		return fmt.Errorf("%s is not ready: %w%s", c.spec.Name, context.Cause(ctx), logTail(c.spec.Log))
	}
}

// Stop ends the child, with SIGKILL when its grace is over, and waits for
// that. It may be called more than once.
func (c *Child) Stop() {
	c.stopOnce.Do(func() { close(c.stop) })
	<-c.done
}

func (c *Child) kill() {
	c.killOnce.Do(func() { close(c.abort) })
	c.stopOnce.Do(func() { close(c.stop) })
}

// run is the child's whole life.
func (c *Child) run() {
	defer close(c.done)
	failures := 0
	for {
		served, err := c.runOnce()
		if c.stopping() {
			c.update(func(s *Status) { s.State, s.PID = Stopped, 0 })
			return
		}
		failures++
		if served {
			failures = 1
		}
		if failures >= c.supervisor.options.MaxFailures {
			c.giveUp(failures, err)
			return
		}
		c.supervisor.options.Logger.Warn("restart", "component", c.spec.Name, "ended", err)
		c.update(func(s *Status) { s.State, s.PID = Waiting, 0 })
		pause := c.supervisor.options.Pause << min(failures-1, maxDoublings)
		select {
		case <-time.After(pause):
		case <-c.stop:
		}
		if c.stopping() {
			c.update(func(s *Status) { s.State = Stopped })
			return
		}
		c.update(func(s *Status) { s.State = Starting; s.Restarts++ })
	}
}

// runOnce starts the process and waits for its end. It reports whether the
// process had become ready, and how it ended.
func (c *Child) runOnce() (served bool, err error) {
	log, err := os.OpenFile(c.spec.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return false, fmt.Errorf("open log of %s: %w", c.spec.Name, err)
	}
	defer log.Close()
	command := exec.Command(c.spec.Path, c.spec.Args...)
	command.Dir, command.Env = c.spec.Dir, c.spec.Env
	command.Stdout, command.Stderr = log, log
	if err := c.supervisor.spawner.start(command); err != nil {
		return false, fmt.Errorf("start %s: %w", c.spec.Name, err)
	}
	c.update(func(s *Status) { s.PID, s.Started = command.Process.Pid, time.Now() })

	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ready := make(chan struct{})
	go c.probe(ctx, ready)

	for {
		select {
		case <-ready:
			served, ready = true, nil
			c.update(func(s *Status) { s.State = Ready })
			c.readied.Do(func() { close(c.ready) })
		case err := <-ended:
			return served, describeExit(err)
		case <-c.stop:
			return served, c.terminate(command, ended)
		}
	}
}

// probe closes ready when the child serves.
func (c *Child) probe(ctx context.Context, ready chan<- struct{}) {
	if c.spec.Ready == nil {
		if sleep.For(ctx, c.supervisor.options.Settle) {
			close(ready)
		}
		return
	}
	for ctx.Err() == nil {
		if c.spec.Ready(ctx) == nil {
			close(ready)
			return
		}
		sleep.For(ctx, readyInterval)
	}
}

func (c *Child) terminate(command *exec.Cmd, ended <-chan error) error {
	if c.spec.Grace > 0 {
		_ = command.Process.Signal(syscall.SIGTERM) // it may have ended already
		select {
		case err := <-ended:
			return describeExit(err)
		case <-time.After(c.spec.Grace):
		case <-c.abort:
		}
	}
	_ = command.Process.Kill() // the same
	return describeExit(<-ended)
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

func (c *Child) stopping() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

// gone reports whether the child has ended and will not come back.
func (c *Child) gone() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func (c *Child) update(change func(*Status)) {
	c.mu.Lock()
	change(&c.status)
	c.mu.Unlock()
	c.supervisor.options.Changed()
}

// describeExit turns the result of Wait into an error that is never nil: a
// supervised process that ends with status 0 has failed as well.
func describeExit(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}
