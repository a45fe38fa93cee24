package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/experiment"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/lab/load"
)

// window measures one window.
func (r *run) window(ctx context.Context, at slot) (w experiment.Window, err error) {
	w = experiment.Window{Round: at.round, Condition: at.condition.Name}
	if at.load != nil {
		w.Load = at.load.Name
	}
	err = r.during(ctx, at, func(running *services) error { return r.measure(ctx, &w, at, running) })
	return w, err
}

// during runs the services of a condition, and calls measure when they have been under load for a
// while.
func (r *run) during(ctx context.Context, at slot, measure func(*services) error) (err error) {
	running, err := r.start(ctx, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(running.stop(), err) }()
	endControl, err := r.control(ctx, running)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endControl()) }()
	defer func() { err = errors.Join(err, r.machine.schedule(unix.SCHED_NORMAL, 0, r.cpus)) }()
	settle := cmp.Or(at.condition.Settle, r.config.Settle).Duration
	if _, err := r.sendFor(ctx, at, running, settle, settleSeed); err != nil {
		return err
	}
	if err := r.machine.schedule(unix.SCHED_RR, 1, running.shared); err != nil {
		return err
	}
	// Periods of the program "demand" begin at these times, and those of a recording should.
	if !sleep.For(ctx, time.Until(time.Now().Truncate(trace.DefaultPeriod).Add(trace.DefaultPeriod))) {
		return context.Cause(ctx)
	}
	return measure(running)
}

// measure measures the figures of a window.
func (r *run) measure(ctx context.Context, w *experiment.Window, at slot, running *services) error {
	for _, s := range running.all {
		for _, p := range s.replicas {
			p.take()
		}
	}
	recorder, err := r.machine.record(ctx, running.all)
	if err != nil {
		return err
	}
	defer recorder.cancel()
	before, err := r.machine.usage(running.all)
	if err != nil {
		return err
	}
	w.Figures = map[experiment.Figure]float64{}
	if at.load != nil {
		err = r.request(ctx, w, at, running)
	} else {
		err = running.wait(ctx, w, r.length)
	}
	if err != nil {
		return err
	}
	after, err := r.machine.usage(running.all)
	if err != nil {
		return err
	}
	series, err := recorder.end()
	if err != nil {
		return err
	}
	w.From, w.To = before.at.Sub(r.began), after.at.Sub(r.began)
	r.account(w, before, after, running)
	for figure, length := range map[experiment.Figure]time.Duration{experiment.Peak: 100 * time.Millisecond, experiment.PeakSlow: time.Second} {
		for _, scale := range trace.TimescalesAt(&series[0], recordEvery, []time.Duration{length}) {
			w.Figures[figure] = scale.Max
		}
	}
	w.Figures[experiment.Full] = full(series, r.cpus.Len())
	if w.Disturbed == "" {
		w.Disturbed = r.config.Disturbed(*w, r.environment)
	}
	if at.round < 0 {
		return nil
	}
	return r.keep(w, running.all, series, before.at)
}

// allUsed is the share of the CPUs from which all count as used: the sampler needs the rest.
const allUsed = 0.97

// full returns the share of periods of 100 ms in which services together used all CPUs.
func full(services []trace.Series, cpus int) (share float64) {
	var sums []float64
	for i := range services {
		periods := services[i].PerPeriod(recordEvery, trace.DefaultPeriod)
		sums = append(sums, make([]float64, max(0, len(periods)-len(sums)))...)
		for period, used := range periods {
			sums[period] += used
		}
	}
	for _, used := range sums {
		if used >= allUsed*float64(cpus) {
			share += 1 / float64(len(sums))
		}
	}
	return share
}

// request sends the load of a window and measures latencies.
func (r *run) request(ctx context.Context, w *experiment.Window, at slot, running *services) error {
	result, err := r.sendFor(ctx, at, running, r.length, 0)
	if err != nil {
		return err
	}
	if failed := result.Failed(); failed > 0 {
		w.Disturbed = fmt.Sprintf("%d requests failed: %v", failed, result.Failures)
	}
	if result.wrk != nil {
		return result.figures(w)
	}
	w.Figures[experiment.Calls] = float64(len(result.Latencies)) / max(result.Took, r.length).Seconds()
	w.Figures[experiment.Lateness] = ms(result.Lateness)
	if len(result.Latencies) == 0 {
		return errNoAnswer
	}
	for figure, q := range map[experiment.Figure]float64{experiment.P50: .5, experiment.P90: .9, experiment.P99: .99, experiment.P999: .999, experiment.Longest: 1} {
		w.Figures[figure] = ms(result.Quantile(q))
	}
	w.Figures[experiment.Mean] = ms(result.Mean())
	w.Latencies, err = histogram(result.Latencies)
	return err
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// histogram returns a histogram of latencies, as [experiment.Window.Latencies].
func histogram(latencies []time.Duration) ([]byte, error) {
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

// account adds the figures of usage.
func (r *run) account(w *experiment.Window, before, after usage, running *services) {
	wall := after.at.Sub(before.at)
	cpus := func(d time.Duration) float64 { return float64(d) / float64(wall) }
	share := func(d time.Duration) float64 { return cpus(d) / float64(r.cpus.Len()) }
	first, total := before.services[0], time.Duration(0)
	for i := range running.all {
		total += after.services[i].Usage - before.services[i].Usage
	}
	own := after.services[0].Usage - first.Usage
	w.Figures[experiment.Used], w.Figures[experiment.Others] = cpus(own), cpus(total-own)
	w.Figures[experiment.Throttled] = 0
	if periods := after.services[0].Periods - first.Periods; periods > 0 {
		w.Figures[experiment.Throttled] = float64(after.services[0].Throttled-first.Throttled) / float64(periods)
	}
	if running.all[0].Program != experiment.Pi { // its threads have ended
		w.Figures[experiment.Waited] = 1000 * cpus(after.waited-before.waited)
	}
	generator := after.generator - before.generator + running.client
	foreign := max(0, after.all-before.all-total-generator)
	w.Figures[experiment.Generator], w.Figures[experiment.Foreign] = share(generator), share(foreign)
	w.Figures[experiment.Stolen] = share(after.stolen - before.stolen)
	w.Figures[experiment.Machine] = share(after.all - before.all)
	if calls := w.Figures[experiment.Calls] * wall.Seconds(); calls > 0 {
		w.Figures[experiment.Cost] = float64(generator) / float64(time.Microsecond) / calls
	}
}

// wait waits for a window without load: until its time is over, or until a program has finished.
func (s *services) wait(ctx context.Context, w *experiment.Window, d time.Duration) error {
	first := s.all[0]
	var over <-chan time.Time
	if first.Program != experiment.Pi {
		over = time.After(d)
	}
	select {
	case <-over:
	case seconds := <-first.replicas[0].finished:
		w.Figures[experiment.Elapsed] = seconds
	case <-first.replicas[0].done:
		return cmp.Or(first.replicas[0].err, errEnded)
	case <-first.replicas[0].silent:
		return fmt.Errorf("%s: its output has ended", first.replicas[0].name)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	work, printed := 0.0, true
	for _, p := range first.replicas {
		amounts := p.take()
		work, printed = work+mean(amounts), printed && len(amounts) > 0
	}
	if !printed { // too short a window, or all of it throttled
		return nil
	}
	switch first.Program {
	case experiment.Cycles, experiment.Batch:
		w.Figures[experiment.Goodput] = work
	case experiment.Demand:
		w.Figures[experiment.Backlog] = work / float64(len(first.replicas))
	}
	return nil
}

func mean(values []float64) (sum float64) {
	for _, v := range values {
		sum += v / float64(len(values))
	}
	return sum
}

// timeout of a request.
const timeout = 10 * time.Second

// settleSeed distinguishes the load before a measurement from the measured one.
const settleSeed = 1 << 32

// sendFor sends the load of a window, if it has one, and waits until a time has passed: the pause
// after the last request belongs to the load.
func (r *run) sendFor(ctx context.Context, at slot, running *services, d time.Duration, seed uint64) (result answers, err error) {
	end := time.Now().Add(d)
	if at.load != nil && d > 0 {
		if result, err = r.send(ctx, at, running, d, seed); err != nil {
			return result, err
		}
	}
	if !sleep.For(ctx, time.Until(end)) {
		return result, context.Cause(ctx)
	}
	return result, nil
}

// seed returns the seed of what is random in a round. It is the same in all of its windows, so
// conditions differ in nothing else.
func (r *run) seed(round int) uint64 { return r.config.Seed + uint64(round) }

// send sends the load of a window to a service for a time.
func (r *run) send(ctx context.Context, at slot, running *services, d time.Duration, seed uint64) (a answers, err error) {
	l, s := at.load, running.all[0]
	if found, real := r.real[wrk]; real && l.Client == experiment.Wrk {
		a.wrk, err = r.runWrk(ctx, found.Program, l, running, d)
		return a, err
	}
	sender, err := s.sender()
	if err != nil {
		return a, err
	}
	defer sender.Close()
	seed += r.seed(at.round)
	plan := load.Plan{Batch: 1, Duration: d, Seed: seed, Timeout: timeout}
	clients := load.Clients{
		Number: l.Clients.Count(r.scale), On: l.On.Duration, Off: l.Off.Duration, Pause: l.Pause.Duration,
		Planned: l.Client == experiment.Planned, Duration: d, Seed: seed, Timeout: timeout,
	}
	switch l.Client {
	case experiment.OnOff, experiment.Planned:
		a.Result, err = load.RunClients(ctx, clients, sender.Send)
		return a, err
	case experiment.Wrk: // the built-in replacement is always on
		clients.On, clients.Off = 1000*time.Hour, 1
		a.Result, err = load.RunClients(ctx, clients, sender.Send)
		return a, err
	case experiment.Random:
		plan.Every = r.every[l.Name]
		plan.Jitter = plan.Every - 1
	case experiment.Batches:
		plan.Batch, plan.Every = l.Batch.Count(r.scale), l.Every.Duration
	}
	a.Result, err = load.Run(ctx, plan, sender.Send)
	return a, err
}
