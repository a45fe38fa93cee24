package supervisor

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Spec says how to run one child.
type Spec struct {
	Name string
	Path string   // the executable
	Args []string // without the executable's own name
	Dir  string   // working directory
	Env  []string // nil: the supervisor's own
	Log  string   // file that takes standard output and error, appended to

	// Ready returns nil when the child serves. It is called again and again
	// until it does. When Ready is nil, a child that has run for
	// Options.Settle counts as ready.
	Ready func(ctx context.Context) error

	// Grace is how long the child may take to end after SIGTERM. 0 means
	// SIGKILL at once.
	Grace time.Duration
}

// State is where a child stands.
type State string

// The states of a child.
const (
	Starting State = "starting" // it runs and does not serve yet
	Ready    State = "ready"    // it serves
	Waiting  State = "waiting"  // it ended and will be started again
	Stopped  State = "stopped"  // it ended because it was told to
	GaveUp   State = "failed"   // it ended too often, and stays down
)

// Status is what is known about a child at one moment.
type Status struct {
	Name     string    `json:"name"`
	State    State     `json:"state"`
	PID      int       `json:"pid,omitempty"` // 0 when it does not run
	Restarts int       `json:"restarts"`
	Started  time.Time `json:"started"` // the latest start
	Log      string    `json:"log"`
}

// Options are the supervisor's own settings. The zero value is usable.
type Options struct {
	// Logger takes a line for each unexpected end. nil: none.
	Logger *slog.Logger
	// Changed is called after every change of a child's status, from several
	// goroutines. It must not call back into the supervisor, Snapshot excepted.
	Changed func()
	// MaxFailures is the number of ends without readiness, in a row, after
	// which the supervisor gives up. Default 5.
	MaxFailures int
	// Pause is waited before the first restart; it doubles with every further
	// failure, up to 16 times. Default 200 ms.
	Pause time.Duration
	// Settle is how long a child without a Ready function must run to count as
	// ready. Default 1 s.
	Settle time.Duration
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
	if o.Settle == 0 {
		o.Settle = time.Second
	}
	return o
}

// Supervisor runs children. Close it after all of them have been stopped.
type Supervisor struct {
	options Options
	spawner *spawner
	failed  chan error // holds the first failure

	mu       sync.Mutex
	children []*Child // in the order of Start
}

// New returns a supervisor without children.
func New(options Options) *Supervisor {
	return &Supervisor{
		options: options.withDefaults(),
		spawner: newSpawner(),
		failed:  make(chan error, 1),
	}
}

// Start runs a child and keeps it running until its Stop. A child of that name
// that has ended for good makes way for it.
func (s *Supervisor) Start(spec Spec) *Child {
	child := newChild(s, spec)
	s.mu.Lock()
	if i := slices.IndexFunc(s.children, func(c *Child) bool { return c.spec.Name == spec.Name && c.gone() }); i >= 0 {
		s.children[i] = child
	} else {
		s.children = append(s.children, child)
	}
	s.mu.Unlock()
	go child.run()
	return child
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

// Failed delivers the reason when the supervisor gives up on a child. Close
// closes it.
func (s *Supervisor) Failed() <-chan error { return s.failed }

// Close stops whatever still runs, without grace, and frees the thread that
// the children hang on.
func (s *Supervisor) Close() {
	s.mu.Lock()
	children := s.children
	s.mu.Unlock()
	for _, child := range children {
		child.kill()
	}
	for _, child := range children {
		<-child.done
	}
	s.spawner.close()
	close(s.failed)
}

func (s *Supervisor) fail(err error) {
	select {
	case s.failed <- err:
	default: // an earlier failure is the better explanation
	}
}
