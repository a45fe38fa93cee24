package nri

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/containerd/nri/pkg/api"
)

// The plugin's name and index. The runtime calls plugins in the order of their indexes.
const (
	name  = "pinfold"
	index = "10"
)

// Options configure the connection to the runtime. The zero value is usable.
type Options struct {
	// Socket is the runtime's NRI socket. Default: /var/run/nri/nri.sock.
	Socket string
	// Logger logs each connection and each failure of the handler. A missing connection is reported
	// only to OnState. Default: no log.
	Logger *slog.Logger
	// OnState is called when the connection, or the reason for a missing one, changes; the first
	// time soon after the start of Run. Calls come one at a time, none after Run has returned.
	// Default: none.
	OnState func(State)
	// OnConflict is called if another plugin sets the same fields. It runs within a request of the
	// runtime and must not block. Default: none.
	OnConflict func(Conflict)
}

// State is the connection to the runtime.
type State struct {
	// Connected is true once the runtime has synchronised: from then on the handler is called for
	// every container that is created or updated.
	Connected bool
	// Runtime is the name and version of the runtime, "" if unknown.
	Runtime string
	// Err is the reason for a missing connection, and its remedy; nil if Connected.
	Err error
}

// Conflict is a container whose CPU settings are also set by another plugin or the kubelet.
type Conflict struct {
	Pod       Pod
	Container Container
	// Proven is false if the only evidence is that the container could not be created with our
	// settings and could without them.
	Proven bool
	// Reason is the evidence and the remedy.
	Reason string
}

func (c Conflict) String() string {
	return fmt.Sprintf("container %s of pod %s/%s: %s", c.Container.Name, c.Pod.Namespace, c.Pod.Name, c.Reason)
}

func (o Options) withDefaults() Options {
	o.Socket = cmp.Or(o.Socket, api.DefaultSocketPath)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.OnState == nil {
		o.OnState = func(State) {}
	}
	if o.OnConflict == nil {
		o.OnConflict = func(Conflict) {}
	}
	return o
}

// backoff computes the pause before the next attempt to connect. It is random, so that many nodes
// do not reconnect in step. A connection that lasted less than maxPause does not reset it, so a
// runtime that drops the plugin at once is not dialled in a loop.
type backoff struct{ next time.Duration }

const (
	minPause = 100 * time.Millisecond
	maxPause = 2 * time.Second
)

// pause returns a random pause from half of the current one to all of it, and doubles the current
// one.
func (b *backoff) pause() time.Duration {
	due := max(b.next, minPause)
	b.next = min(2*due, maxPause)
	return due/2 + time.Duration(rand.Float64()*float64(due/2))
}

func (b *backoff) reset() { b.next = 0 }
