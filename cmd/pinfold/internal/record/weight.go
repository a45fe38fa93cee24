//go:build linux

package record

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/weight"
	"pinfold.dev/pinfold/report"
)

// keepEvery is the time between two looks at the weights: what somebody writes back is short.
const keepEvery = 100 * time.Millisecond

// weights are those of groups that get CPUs before others while they are recorded.
type weights struct {
	raised *weight.Raised
	held   atomic.Pointer[map[string]bool] // see weight.Raised.Keep
	stop   context.CancelFunc
	ended  chan struct{}
}

// raise raises the weights of groups, and those above them, if that is requested. Otherwise it
// returns nil.
func (o *sampleOptions) raise(fs *cgroup.FS, paths []string, stderr io.Writer) (*weights, error) {
	if !o.weight {
		return nil, nil
	}
	raised, err := weight.Raise(fs, paths, stderr)
	if err != nil {
		return nil, fmt.Errorf("--weight: %w", err)
	}
	frame.Notef(stderr, "until the end these get CPUs before other control groups: %s", report.Printable(strings.Join(raised.Groups(), ", ")))
	w := &weights{raised: raised, ended: make(chan struct{})}
	w.held.Store(new(raised.Keep()))
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	go func() {
		defer close(w.ended)
		for sleep.For(ctx, keepEvery) {
			w.held.Store(new(raised.Keep()))
		}
	}()
	return w, nil
}

// holds reports whether a group gets CPUs before others. w may be nil.
func (w *weights) holds(group string) bool { return w != nil && (*w.held.Load())[group] }

// restore puts back the weights. w may be nil.
func (w *weights) restore() error {
	if w == nil {
		return nil
	}
	w.stop()
	<-w.ended
	return w.raised.Restore()
}
