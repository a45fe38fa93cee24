package nri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"
	"time"

	"pinfold.dev/pinfold/internal/sleep"
)

// Run connects to the runtime, serves its requests with the handler, and reconnects whenever the
// connection ends. It returns after ctx has ended and the last call of the handler has returned.
// Each connection starts with a Synchronize of all pods and containers, so events missed in between
// are not lost.
func Run(ctx context.Context, options Options, handler Handler) {
	r := &runner{options: options.withDefaults(), handler: handler, guard: newGuard(), containers: newTracker()}
	for ctx.Err() == nil {
		err := r.connect(ctx)
		if ctx.Err() != nil {
			break
		}
		r.report(State{Err: err})
		sleep.For(ctx, r.backoff.pause())
	}
	// A handler that obeys its context has returned by now. Another one gets the time that the
	// runtime would give it.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	r.guard.wait(last)
}

type runner struct {
	options    Options
	handler    Handler
	guard      *guard
	containers *tracker
	backoff    backoff
	last       string // the last state reported, formatted; "" if none was
}

// connect makes one connection and serves it until it ends.
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
		ctx, cancel := context.WithCancel(ctx) // ends abandoned handlers
		defer cancel()
		ended <- s.serve(ctx, conn)
	}()
	return r.follow(synced, ended)
}

// follow reports the state of a connection until it has ended.
func (r *runner) follow(synced <-chan string, ended <-chan error) error {
	// The runtime can be busy creating containers. A wait is reported only if it is long.
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
			r.report(State{Err: errWaiting})
		case err := <-ended:
			if !since.IsZero() && time.Since(since) >= maxPause {
				r.backoff.reset()
			}
			return err
		}
	}
}

// report reports a state that differs from the last one reported. OnState decides how often to log
// a missing connection.
func (r *runner) report(s State) {
	text := fmt.Sprint(s)
	if text == r.last {
		return
	}
	r.last = text
	if s.Connected {
		r.options.Logger.Info("connected to the container runtime by NRI", "runtime", s.Runtime, "socket", r.options.Socket)
	}
	r.options.OnState(s)
}

// The reasons for a missing connection to the runtime. Run continues after each of them.
var (
	// errNoSocket means that NRI is off, or that no runtime has run since the node booted.
	errNoSocket = errors.New("no NRI socket")
	// errNotListening means that the runtime is down or was restarted with NRI off.
	errNotListening = errors.New("no process listens on the NRI socket")
	// errNotAllowed means that this process may not open the socket.
	errNotAllowed = errors.New("the NRI socket may not be opened")
	// errRefused means that the runtime rejected the plugin.
	errRefused = errors.New("the runtime refused the NRI plugin")
	// errWaiting means that the runtime has accepted the plugin but not synchronised yet.
	errWaiting = errors.New("the runtime has not synchronised yet")
	// errLost means that the connection ended.
	errLost = errors.New("the connection to the runtime ended")
)

// explainDial adds the likely cause and its remedy to an error of dialling the socket.
func explainDial(socket string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w at %s: the runtime is down or has NRI off; to switch it on: containerd 1.7 and later have disable = false under"+
			" [plugins.'io.containerd.nri.v1.nri'] (2.0 and later by default; older than 1.7 has no NRI),"+
			" CRI-O enable_nri = true under [crio.nri]; in a pod, mount the socket's directory from the host", errNoSocket, socket)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w %s: the runtime is down or was restarted with NRI off; look at its log and configuration",
			errNotListening, socket)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %s: run as root and, with SELinux, as a privileged container", errNotAllowed, socket)
	}
	return fmt.Errorf("%w: dial %s: %w", errNotListening, socket, err)
}

// explainRegister adds the likely cause and its remedy to an error of the registration.
func explainRegister(err error) error {
	return fmt.Errorf("%w %s-%s: %w: see the runtime's log; if another plugin has this name and index (a second agent on this node?),"+
		" end it or give one of them another", errRefused, index, name, err)
}
