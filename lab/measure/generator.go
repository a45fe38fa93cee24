package measure

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"pinfold.dev/pinfold/core/experiment"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/lab/load"
	"pinfold.dev/pinfold/lab/pods"
	"pinfold.dev/pinfold/lab/programs"
	"pinfold.dev/pinfold/linux/cgroup"
)

// generator sends the loads of windows to the first service.
type generator struct {
	*launcher                          // starts wrk
	every     map[string]time.Duration // between the requests of calibrated loads, by name
}

// timeout of a request.
const timeout = 10 * time.Second

// sent is what a load has measured.
type sent struct {
	figures   map[experiment.Figure]float64
	latencies []time.Duration // empty for wrk, which prints quantiles only
	failed    string          // why requests have failed, "" if all were answered
	client    time.Duration   // CPU time of wrk, which is another process
}

// send sends the load of a window, and before it for as long as the programs need to settle. Both are one
// plan, so a window begins with what earlier requests have left. It calls begin when the window begins,
// and waits until that is over: the pause after the last request belongs to the load. Without a load it
// only waits.
func (g *generator) send(ctx context.Context, at slot, running *services, d time.Duration, begin func() error) (s sent, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	start := nextPeriod(time.Now().Add(at.Settle)).Add(-at.Settle)
	if !sleep.For(ctx, time.Until(start)) {
		return s, context.Cause(ctx)
	}
	start = time.Now() // by the monotonic clock
	inWindow := func() (sent, error) { return sent{}, nil }
	if l := at.Load; l != nil {
		found, real := g.real[wrk]
		if real && l.Client == experiment.Wrk { // it has no plan
			inWindow = func() (sent, error) { return g.runWrk(ctx, found.Program, l.Clients.Count(), running, d) }
			if at.Settle > 0 {
				_, err = g.runWrk(ctx, found.Program, l.Clients.Count(), running, at.Settle)
				start = nextPeriod(time.Now()).Add(-at.Settle) // it rounds up to seconds
			}
		} else {
			inWindow, err = g.request(ctx, at, running.all[0], d)
		}
		if err != nil {
			return s, err
		}
	}
	if !sleep.For(ctx, time.Until(start.Add(at.Settle))) {
		return s, context.Cause(ctx)
	}
	end := time.Now().Add(d)
	if err := begin(); err != nil {
		return s, err
	}
	if s, err = inWindow(); err != nil {
		return s, err
	}
	if !sleep.For(ctx, time.Until(end)) {
		return s, context.Cause(ctx)
	}
	return s, nil
}

// nextPeriod returns the next multiple of 100 ms: periods of the program "demand" begin at these times,
// and those of a recording should.
func nextPeriod(at time.Time) time.Time {
	return at.Truncate(trace.DefaultPeriod).Add(trace.DefaultPeriod)
}

// request begins to send a load from this process, and returns a function that waits for its end and
// returns what it has measured in the window.
func (g *generator) request(ctx context.Context, at slot, to *service, d time.Duration) (wait func() (sent, error), err error) {
	sender, err := to.sender()
	if err != nil {
		return nil, err
	}
	var result load.Result
	plan, ended := g.load(at.Load, at.Settle+d, g.seed(at.round)), make(chan error, 1)
	go func() {
		defer sender.Close()
		var err error
		result, err = load.Run(ctx, plan, sender.Send)
		ended <- err
	}()
	return func() (s sent, err error) {
		if err := <-ended; err != nil {
			return s, err
		}
		if failed := result.Failed(); failed > 0 {
			s.failed = fmt.Sprintf("%d requests failed: %v", failed, result.Failures)
		}
		in := result.Since(at.Settle)
		s.latencies = in.Latencies
		s.figures = map[experiment.Figure]float64{
			experiment.Calls:    float64(len(in.Latencies)) / max(in.Took, d).Seconds(),
			experiment.Lateness: ms(in.Lateness), experiment.Mean: ms(in.Mean()),
		}
		for figure, q := range map[experiment.Figure]float64{experiment.P50: .5, experiment.P90: .9, experiment.P99: .99, experiment.P999: .999, experiment.Longest: 1} {
			s.figures[figure] = ms(in.Quantile(q))
		}
		return s, nil
	}, nil
}

// load returns a load as this process sends it.
func (g *generator) load(l *experiment.Load, d time.Duration, seed uint64) load.Load {
	clients := load.Clients{
		Number: l.Clients.Count(), On: l.On.Duration, Off: l.Off.Duration, Pause: cmp.Or(g.every[l.Name], l.Pause.Duration),
		Planned: l.Client == experiment.Planned, Duration: d, Seed: seed, Timeout: timeout,
	}
	plan := load.Plan{Batch: 1, Duration: d, Seed: seed, Timeout: timeout}
	switch l.Client {
	case experiment.Random:
		plan.Every, plan.Random = g.every[l.Name], true
		return plan
	case experiment.Batches:
		plan.Batch, plan.Every = l.Batch.Count(), l.Every.Duration
		return plan
	case experiment.Wrk: // the built-in replacement is always on
		clients.On, clients.Off = 1000*time.Hour, 1
	case experiment.Planned:
		return clients.Level()
	}
	return clients
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// histogram encodes latencies as [experiment.Window.Latencies]. It returns nil without any.
func histogram(latencies []time.Duration) ([]byte, error) {
	if len(latencies) == 0 {
		return nil, nil
	}
	h := experiment.NewHistogram()
	for _, l := range latencies {
		if err := h.RecordValue(max(1, l.Microseconds())); err != nil {
			return nil, fmt.Errorf("record a latency of %v: %w", l, err)
		}
	}
	encoded, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, fmt.Errorf("encode the latencies: %w", err)
	}
	return encoded, nil
}

// runWrk runs wrk for a time, rounded up to seconds, on CPUs that belong to no service alone.
func (g *generator) runWrk(ctx context.Context, wrk programs.Program, clients int, running *services, d time.Duration) (s sent, err error) {
	args, err := programs.WrkLoad{URL: running.all[0].url, Threads: min(clients, running.shared.Len()), Connections: clients, Duration: d}.Args()
	if err != nil {
		return s, err
	}
	var output bytes.Buffer
	_, most := g.machine.groups.Layout().Weights()
	p, err := g.machine.start(ctx, program{
		Spec: pods.Spec{Name: g.newName()}, title: "wrk", command: wrk.Command(args...), output: &output,
		wanted: cgroup.Wanted{CPUs: &running.shared, Weight: &most}, // it stands for clients on other machines
	}, g.say)
	if err != nil {
		return s, err
	}
	<-p.done
	if cause := context.Cause(ctx); cause != nil {
		return s, cause
	}
	if p.result == nil || p.result.ExitStatus != 0 {
		return s, p.err
	}
	result, err := programs.ParseWrk(&output)
	if err != nil {
		return s, fmt.Errorf("%w: it printed %q", err, output.String())
	}
	if failed := result.ConnectErrors + result.ReadErrors + result.WriteErrors + result.Timeouts + result.BadStatus; failed > 0 {
		s.failed = fmt.Sprintf("%d requests failed", failed)
	}
	s.client = p.result.Stat.Usage
	s.figures = map[experiment.Figure]float64{
		experiment.Calls: result.PerSecond, experiment.Mean: ms(result.Mean), experiment.P50: ms(result.P50),
		experiment.P90: ms(result.P90), experiment.P99: ms(result.P99), experiment.Longest: ms(result.Max),
	}
	return s, nil
}
