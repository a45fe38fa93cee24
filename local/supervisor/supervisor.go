// Package supervisor keeps a few child processes running and ensures that none of them outlives the
// process that started them. [New] returns a [Supervisor].
//
// One goroutine per child runs this state machine until the child is told to stop or the supervisor
// gives up:
//
//	starting -> ready -> (exit) -> waiting -> starting ...
//
// A child that ends is restarted after a short, growing pause. If a child ends several times in a
// row without becoming ready, the supervisor gives up on it, keeps the end of its log as the
// reason, and reports that on Failed. An exit after readiness, for any reason, resets the count, so
// a test may kill a child as often as it likes.
//
// Each child is in a process group of its own: ctrl-C on the terminal reaches only the supervisor,
// which then stops the children. Children also ask the kernel for SIGKILL when their parent dies,
// so that even a killed supervisor leaves nothing behind. To the kernel, the parent is the thread
// that forked (prctl(2), PR_SET_PDEATHSIG), and the Go runtime may end threads at any time.
// Therefore all children are started from one thread that lives as long as they do.
package supervisor

import (
	"context"
	"log/slog"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Spec describes how to run one child.
type Spec struct {
	Name string
	Path string   // the executable
	Args []string // without the name of the executable
	Dir  string   // working directory
	Env  []string // nil: the environment of the supervisor
	Log  string   // standard output and error are appended to this file

	// Ready returns nil when the child serves. It is called repeatedly until then. If Ready is
	// nil, a child counts as ready after it has run for 1 s.
	Ready func(ctx context.Context) error
}

// State is the state of a child.
type State string

// The states of a child.
const (
	Starting State = "starting" // running, not serving yet
	Ready    State = "ready"    // serving
	Waiting  State = "waiting"  // ended; will be restarted after a pause
	Stopped  State = "stopped"  // ended by Stop or Close
	GaveUp   State = "failed"   // ended too often; not restarted
)

// Status is a snapshot of a child.
type Status struct {
	Name     string    `json:"name"`
	State    State     `json:"state"`
	PID      int       `json:"pid,omitempty"` // 0 if it is not running
	Restarts int       `json:"restarts"`
	Started  time.Time `json:"started,omitzero"` // the latest start
	Log      string    `json:"log"`
}

// Options configure a supervisor. The zero value is usable.
type Options struct {
	// Logger logs each unexpected exit. nil: no logging.
	Logger *slog.Logger
	// Changed is called after every change of a child's status, from several goroutines. Of the
	// supervisor's methods, it may call only Snapshot.
	Changed func()
	// MaxFailures is the number of consecutive exits without readiness after which the supervisor
	// gives up. Default 5.
	MaxFailures int
	// Pause is the pause before the first restart. It doubles with every further failure, up to 16
	// times its value. Default 200 ms.
	Pause time.Duration
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.MaxFailures == 0 {
		o.MaxFailures = 5
	}
	if o.Pause == 0 {
		o.Pause = 200 * time.Millisecond
	}
	return o
}

// Supervisor runs children. Close stops all of them.
type Supervisor struct {
	options Options
	starts  chan func()
	failed  chan error // holds the first failure

	mu       sync.Mutex
	children []*Child // in the order of Start
}

// New returns a supervisor without children.
func New(options Options) *Supervisor {
	s := &Supervisor{options: options.withDefaults(), starts: make(chan func()), failed: make(chan error, 1)}
	go func() {
		// The thread is never unlocked, so the runtime ends it together with this goroutine, after
		// Close. The kernel would then kill the remaining children.
		runtime.LockOSThread()
		for start := range s.starts {
			start()
		}
	}()
	return s
}

// Start runs a child and keeps it running until its Stop. It replaces a child of the same name that
// has ended for good.
func (s *Supervisor) Start(spec Spec) *Child {
	child := newChild(s, spec)
	s.mu.Lock()
	if i := slices.IndexFunc(s.children, func(c *Child) bool { return c.spec.Name == spec.Name && c.ended.Err() != nil }); i >= 0 {
		s.children[i] = child
	} else {
		s.children = append(s.children, child)
	}
	s.mu.Unlock()
	go child.run()
	return child
}

// spawn starts a process from the supervisor's thread.
func (s *Supervisor) spawn(command *exec.Cmd) error {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	result := make(chan error, 1)
	s.starts <- func() { result <- command.Start() }
	return <-result
}

// Snapshot returns the status of every child, in the order of their start.
func (s *Supervisor) Snapshot() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	statuses := make([]Status, 0, len(s.children))
	for _, child := range s.children {
		statuses = append(statuses, child.Status())
	}
	return statuses
}

// Failed delivers the reason when the supervisor gives up on a child. Close closes the channel.
func (s *Supervisor) Failed() <-chan error { return s.failed }

// Close kills all children and ends the thread that started them.
func (s *Supervisor) Close() {
	s.mu.Lock()
	children := s.children
	s.mu.Unlock()
	for _, child := range children {
		child.stop()
	}
	for _, child := range children {
		<-child.ended.Done()
	}
	close(s.starts)
	close(s.failed)
}

func (s *Supervisor) fail(err error) {
	select {
	case s.failed <- err:
	default: // an earlier failure explains more
	}
}
