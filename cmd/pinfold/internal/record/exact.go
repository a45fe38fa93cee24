//go:build linux

package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"pinfold.dev/pinfold/cmd/pinfold/internal/groups"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/schedtrace"
	"pinfold.dev/pinfold/report"
	"pinfold.dev/pinfold/tracefile"
)

// exact traces the scheduler beside a sampler.
type exact struct {
	stop  context.CancelFunc
	ended chan error
	seen  *schedtrace.Observation              // when it has ended
	early atomic.Pointer[schedtrace.CostError] // why it ended before the sampler

	mu       sync.Mutex         // protects the recorder and the following
	recorder tracefile.Recorder // nil before the sampler has begun
	start    time.Duration      // of the recording, on the tracer's clock
	last     time.Duration      // end of the last sample, since start; 0 before it is taken
	series   trace.Exacts
	err      error // the first of the recorder
}

// trace begins to trace groups, before the sampler begins.
func (o *sampleOptions) trace(fs *cgroup.FS, paths []string, names *groups.Names, options schedtrace.Options) (*exact, error) {
	ctx, cancel := context.WithCancel(context.Background())
	x := &exact{stop: cancel, ended: make(chan error, 1), series: trace.Exacts{}}
	for _, group := range paths {
		x.series[group] = trace.NewExact(&trace.Series{})
	}
	started := make(chan struct{})
	request := schedtrace.Request{Groups: paths, Started: func() { close(started) }}
	groups.Observe(&request, names, x.add)
	go func() {
		var err error
		x.seen, err = schedtrace.Observe(ctx, fs, request, options)
		var expensive *schedtrace.CostError
		if errors.As(err, &expensive) {
			x.early.Store(expensive)
			err = nil
		}
		x.ended <- err
	}()
	select {
	case <-started:
		return x, nil
	case err := <-x.ended:
		cancel()
		if errors.Is(err, errors.ErrUnsupported) {
			err = fmt.Errorf("%w; without --exact it works", err)
		}
		return nil, err
	}
}

// begin passes on what is traced from now on. start is when the sampler began.
func (x *exact) begin(r tracefile.Recorder, start time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.recorder, x.start = r, schedtrace.Now()-time.Since(start)
}

// finish leaves out what happens after the last sample.
func (x *exact) finish(last time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last = last
}

// locked calls do while no span is recorded. x may be nil.
func (x *exact) locked(do func() error) error {
	if x != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
	}
	return do()
}

// add records a span, in the tracer's goroutine. Its times become those of the recording.
func (x *exact) add(s *trace.Span) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.recorder == nil || s.To < x.start {
		return
	}
	s.From, s.To = max(0, s.From-x.start), s.To-x.start
	if x.last > 0 {
		if s.From > x.last {
			return
		}
		s.To = min(s.To, x.last)
	}
	x.series.Add(s)
	if err := x.recorder.AppendSpan(s); x.err == nil {
		x.err = err
	}
}

// endedEarly returns why tracing has ended before the sampler, or nil. x may be nil.
func (x *exact) endedEarly() *schedtrace.CostError {
	if x == nil {
		return nil
	}
	return x.early.Load()
}

// end ends tracing. What was traced until then has been recorded when it returns.
func (x *exact) end() error {
	x.stop()
	err := <-x.ended
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err != nil {
		err = errors.Join(err, fmt.Errorf("what threads did is not complete: %w", x.err))
	}
	return err
}

// summary prints what tracing has cost.
func (x *exact) summary(w io.Writer) {
	if x.seen == nil {
		return
	}
	c, length := x.seen.Cost, x.seen.To-x.seen.From
	report.Line(w, "tracing", "took %.2g%% of a CPU; %d events lost",
		100*float64(c.KernelTime+c.HandleTime)/float64(max(1, length)), c.Lost)
	if err := x.endedEarly(); err != nil {
		report.Line(w, "note", "tracing ended early: %v (--max-cost)", err)
	}
}
