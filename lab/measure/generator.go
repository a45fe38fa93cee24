package measure

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/lab/experiment"
	"pinfold.dev/pinfold/lab/host"
	"pinfold.dev/pinfold/lab/programs"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/local/load"
)

// generator sends the loads of windows to the first service.
type generator struct {
	*launcher                          // starts wrk
	pauses    map[string]time.Duration // of loads with a use, by name: between all requests, or those of a client
}

// timeout of a request. It is longer than any window, so that slow requests count, and not as disturbances.
const timeout = 5 * time.Minute

// always is how long a client is on that does not end.
const always = 1000 * time.Hour

// settleSeed distinguishes the load before a measurement from the measured one.
const settleSeed = 1 << 32

// sent is what a load has measured.
type sent struct {
	figures   map[experiment.Figure]float64
	latencies []time.Duration // empty for wrk, which prints quantiles only
	failed    string          // why requests have failed, "" if all were answered
	client    time.Duration   // CPU time of wrk, which is another process
}

// send sends the load of a window, if it has one, and waits until a time has passed: the pause
// after the last request belongs to the load.
func (g *generator) send(ctx context.Context, at slot, running *services, d time.Duration, seed uint64) (s sent, err error) {
	end := time.Now().Add(d)
	if l := at.Load; l != nil && d > 0 {
		if found, real := g.real[wrk]; real && l.Client == experiment.Wrk {
			s, err = g.runWrk(ctx, found, l.Clients.Count(), running, d)
		} else {
			s, err = g.request(ctx, l, running.all[0], d, seed+g.seed(at.round))
		}
		if err != nil {
			return s, err
		}
	}
	if !sleep.For(ctx, time.Until(end)) {
		return s, context.Cause(ctx)
	}
	return s, nil
}

// request sends a load from this process.
func (g *generator) request(ctx context.Context, l *experiment.Load, to *service, d time.Duration, seed uint64) (s sent, err error) {
	sender, err := to.sender()
	if err != nil {
		return s, err
	}
	defer sender.Close()
	result, err := load.Run(ctx, g.load(l, d, seed), sender.Send)
	if err != nil {
		return s, err
	}
	if failed := result.Failed(); failed > 0 {
		s.failed = fmt.Sprintf("%d requests failed: %v", failed, result.Failures)
	}
	s.latencies = result.Latencies
	s.figures = map[experiment.Figure]float64{
		experiment.Calls:    float64(len(result.Latencies)) / max(result.Took, d).Seconds(),
		experiment.Lateness: ms(result.Lateness), experiment.Mean: ms(result.Mean()),
	}
	for figure, q := range map[experiment.Figure]float64{experiment.P50: .5, experiment.P75: .75, experiment.P90: .9, experiment.P99: .99, experiment.P999: .999, experiment.Longest: 1} {
		s.figures[figure] = ms(result.Quantile(q))
	}
	return s, nil
}

// load returns a load as this process sends it.
func (g *generator) load(l *experiment.Load, d time.Duration, seed uint64) load.Load {
	pause := l.Pause.Duration
	if l.Use > 0 {
		pause = g.pauses[l.Name]
	}
	clients := load.Clients{
		Number: l.Clients.Count(), On: l.On.Duration, Off: l.Off.Duration, Pause: pause,
		Planned: l.Client == experiment.Planned, Duration: d, Seed: seed, Timeout: timeout,
	}
	plan := load.Plan{Batch: 1, Duration: d, Seed: seed, Timeout: timeout}
	switch l.Client {
	case experiment.Random:
		plan.Every = pause
		plan.Jitter = plan.Every - 1
		return plan
	case experiment.Batches:
		plan.Batch, plan.Every = l.Batch.Count(), l.Every.Duration
		return plan
	case experiment.Wrk: // the built-in replacement is always on
		clients.On, clients.Off = always, 1
	}
	return clients
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// histogram encodes latencies as [experiment.Window.Latencies]. It returns nil without any.
func histogram(latencies []time.Duration) ([]byte, error) {
	if len(latencies) == 0 {
		return nil, nil
	}
	h := hdrhistogram.New(1, int64(time.Hour/time.Microsecond), 3)
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
	p, err := g.machine.Start(ctx, host.Program{
		Name: g.newName(), Title: "wrk", Command: wrk.Command(args...), Output: &output,
		Wanted: cgroup.Wanted{CPUs: &running.shared, Weight: new(g.machine.mostWeight())}, // it stands for clients on other machines
	}, g.say)
	if err != nil {
		return s, err
	}
	<-p.Done
	if cause := context.Cause(ctx); cause != nil {
		return s, cause
	}
	if p.Result == nil || p.Result.ExitStatus != 0 {
		return s, p.Err
	}
	result, err := programs.ParseWrk(&output)
	if err != nil {
		return s, fmt.Errorf("%w: it printed %q", err, output.String())
	}
	if failed := result.ConnectErrors + result.ReadErrors + result.WriteErrors + result.Timeouts + result.BadStatus; failed > 0 {
		s.failed = fmt.Sprintf("%d requests failed", failed)
	}
	s.client = p.Result.Stat.Usage
	s.figures = map[experiment.Figure]float64{
		experiment.Calls: result.PerSecond, experiment.Mean: ms(result.Mean), experiment.P50: ms(result.P50), experiment.P75: ms(result.P75),
		experiment.P90: ms(result.P90), experiment.P99: ms(result.P99), experiment.Longest: ms(result.Max),
	}
	return s, nil
}
