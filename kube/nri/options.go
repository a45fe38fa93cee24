package nri

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/containerd/nri/pkg/api"
)

// Options say how to reach the runtime. The zero value is usable.
type Options struct {
	// Socket is the runtime's. Default /var/run/nri/nri.sock.
	Socket string
	// Name and Index are the plugin's; plugins are called in the order of their indices, two
	// digits. Default "pinfold" and "10".
	Name, Index string
	// Logger takes a line for each connection and each failure of the handler, but leaves it to
	// OnState to say that there is no connection. nil: none.
	Logger *slog.Logger
	// OnState is called when the connection changes, and when the reason for which there is none
	// changes; the first time within moments of Run. Calls come one at a time, none after Run has
	// returned. nil: none.
	OnState func(State)
	// OnConflict is called when another plugin sets what we set. It runs within a request of the
	// runtime and must not block. nil: none.
	OnConflict func(Conflict)
	// Jitter returns numbers in [0, 1) that spread the pauses. Default: random ones.
	Jitter func() float64
}

// State is the connection to the runtime.
type State struct {
	// Connected is true once the runtime has synchronised: from then on no container is created or
	// updated without the handler.
	Connected bool
	// Runtime is its name and version, "" when not known.
	Runtime string
	// Err is why there is no connection, and what to do; nil when Connected. It is one of the
	// package's errors.
	Err error
}

// Conflict is a container of which another plugin, or the kubelet, sets what we set.
type Conflict struct {
	Pod       Pod
	Container Container
	// Proven is false when the container merely could not be created with our settings and could
	// without.
	Proven bool
	// Reason says what was seen and what to do.
	Reason string
}

func (c Conflict) String() string {
	return fmt.Sprintf("container %s of pod %s/%s: %s", c.Container.Name, c.Pod.Namespace, c.Pod.Name, c.Reason)
}

// The defaults of Options.
const (
	DefaultSocket = api.DefaultSocketPath
	DefaultName   = "pinfold"
	DefaultIndex  = "10"
)

func (o Options) withDefaults() Options {
	if o.Socket == "" {
		o.Socket = DefaultSocket
	}
	if o.Name == "" {
		o.Name = DefaultName
	}
	if o.Index == "" {
		o.Index = DefaultIndex
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.OnState == nil {
		o.OnState = func(State) {}
	}
	if o.OnConflict == nil {
		o.OnConflict = func(Conflict) {}
	}
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	return o
}

func (o Options) check() error {
	if err := api.CheckPluginName(o.Name); err != nil {
		return err
	}
	return api.CheckPluginIndex(o.Index)
}

// backoff is the pause before the next attempt to connect.
type backoff struct {
	next   time.Duration
	jitter func() float64
}

const (
	minPause = 100 * time.Millisecond
	maxPause = 2 * time.Second
)

// pause returns between half of the pause that is due and the whole.
func (b *backoff) pause() time.Duration {
	due := max(b.next, minPause)
	b.next = min(2*due, maxPause)
	return due/2 + time.Duration(b.jitter()*float64(due/2))
}

func (b *backoff) reset() { b.next = 0 }
