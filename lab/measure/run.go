package measure

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/lab/experiment"
	"pinfold.dev/pinfold/lab/host"
)

// Options are the options of a run.
type Options struct {
	Dir     string // of the run; it must not exist
	Quick   bool
	Rounds  int    // 0: those of the experiment
	BuiltIn bool   // built-in programs replace those that are installed
	Version string // of this program
	// Workload returns the command line of a built-in program.
	Workload func(args ...string) []string
	Progress func(string)
}

// Run measures an experiment. If ctx ends, it keeps what was measured, and returns the cause.
func Run(ctx context.Context, c experiment.Config, o Options) (err error) {
	unlock, err := host.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	prepared, err := prepare(ctx, c, o)
	if err != nil {
		return err
	}
	launcher, err := newLauncher(prepared, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, launcher.close()) }()
	archive, err := newArchive(o.Dir, prepared.config, prepared.environment)
	if err != nil {
		return err
	}
	r := &run{prepared, launcher, &generator{launcher, map[string]time.Duration{}}, archive}
	explained, err := r.measureAll(ctx)
	return archive.end(explained, err)
}

// run measures windows, in order.
type run struct {
	*lab
	launcher  *launcher
	generator *generator
	archive   *archive
}

// slot is a window to measure.
type slot struct {
	experiment.Setup
	round int // -1 for a measurement before the first round, which is not kept
}

// measureAll measures all rounds, and then where the time went.
func (r *run) measureAll(ctx context.Context) ([]experiment.Explanation, error) {
	if err := r.launcher.calibrate(ctx); err != nil {
		return nil, err
	}
	if err := r.calibrate(ctx); err != nil {
		return nil, err
	}
	r.say(fmt.Sprintf("%s: %d windows, %v; those that other programs disturb are measured again, up to %d times",
		r.config.Name, r.rounds*len(r.setups), r.time().Round(time.Second), r.config.Repeated))
	random := rand.New(rand.NewPCG(r.config.Seed, 1))
	progress := progress{begun: time.Now(), say: r.say, name: r.config.Name, total: r.rounds * len(r.setups)}
	for round := range r.rounds {
		for _, i := range random.Perm(len(r.setups)) {
			if err := r.measureUndisturbed(ctx, slot{r.setups[i], round}, &progress); err != nil {
				return nil, err
			}
		}
	}
	return r.explainAll(ctx)
}

// measureUndisturbed measures a window, again if it was disturbed.
func (r *run) measureUndisturbed(ctx context.Context, at slot, progress *progress) error {
	for try := 0; ; try++ {
		w, err := r.window(ctx, at)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return fmt.Errorf("condition %q: %w", at.Condition, err)
		}
		if err := r.archive.add(w); err != nil {
			return err
		}
		if w.Disturbed == "" || try == r.config.Repeated {
			progress.done(w.Disturbed)
			return nil
		}
	}
}

// window measures one window.
func (r *run) window(ctx context.Context, at slot) (w measured, err error) {
	w.Window = experiment.Window{Round: at.round, Condition: at.Condition, Figures: map[experiment.Figure]float64{}}
	if at.Load != nil {
		w.Load = at.Load.Name
	}
	err = r.during(ctx, at, func(running *services) error {
		m, err := begin(ctx, r.lab, running)
		if err != nil {
			return err
		}
		defer m.recorder.cancel()
		client := time.Duration(0)
		if at.Load == nil {
			err = running.wait(ctx, w.Figures, r.length)
		} else {
			client, err = r.request(ctx, &w, at, running)
		}
		if err != nil {
			return err
		}
		return m.end(&w, client)
	})
	return w, err
}

// during runs the services of a setup, and calls measure when they have been under load for a
// while.
func (r *run) during(ctx context.Context, at slot, measure func(*services) error) (err error) {
	running, err := r.launcher.start(ctx, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(running.stop(), err) }()
	endControl, err := controller{r.machine, r.cpus, r.launcher.dir}.start(ctx, running)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, endControl()) }()
	defer func() { err = errors.Join(err, r.machine.Schedule(unix.SCHED_NORMAL, 0, r.cpus)) }()
	if _, err := r.generator.send(ctx, at, running, at.Settle, settleSeed); err != nil {
		return err
	}
	if err := r.machine.Schedule(unix.SCHED_RR, 1, running.shared); err != nil {
		return err
	}
	// Periods of the program "demand" begin at these times, and those of a recording should.
	if !sleep.For(ctx, time.Until(time.Now().Truncate(trace.DefaultPeriod).Add(trace.DefaultPeriod))) {
		return context.Cause(ctx)
	}
	return measure(running)
}

// request sends the load of a window and adds what it has measured. It returns the CPU time of a
// load generator that is another program.
func (r *run) request(ctx context.Context, w *measured, at slot, running *services) (time.Duration, error) {
	s, err := r.generator.send(ctx, at, running, r.length, 0)
	if err != nil {
		return 0, err
	}
	if s.figures[experiment.Calls] == 0 {
		return 0, errors.New("no request was answered")
	}
	w.Figures, w.Disturbed = s.figures, s.failed
	w.Latencies, err = histogram(s.latencies)
	return s.client, err
}

// calibrate finds the interval between the requests of random loads, with the first condition. A
// busy service needs less CPU time for each request, so the last measurement is with that interval.
func (r *run) calibrate(ctx context.Context) error {
	for _, s := range r.setups {
		if s.Load == nil || s.Load.Client != experiment.Random || s.Condition != r.setups[0].Condition {
			continue
		}
		cpu := time.Millisecond
		for range 3 {
			r.generator.every[s.Load.Name] = time.Duration(float64(cpu) / float64(s.Load.Use) / float64(r.cpus.Len()))
			w, err := r.window(ctx, slot{s, -1})
			if err != nil {
				return fmt.Errorf("measure the CPU time of a request: %w", err)
			}
			cpu = time.Duration(w.Figures[experiment.Used] / w.Figures[experiment.Calls] * float64(time.Second))
			if cpu <= 0 {
				return errors.New("measure the CPU time of a request: the service used none")
			}
		}
	}
	return nil
}

// progress says how far a run is.
type progress struct {
	begun     time.Time
	say       func(string)
	name      string
	measured  int
	total     int
	disturbed int
}

// done says that a window was measured. disturbed is why it cannot be used, "" if it can.
func (p *progress) done(disturbed string) {
	p.measured++
	if disturbed != "" {
		p.disturbed++
	}
	remaining := time.Since(p.begun) / time.Duration(p.measured) * time.Duration(p.total-p.measured)
	text := fmt.Sprintf("%s: window %d of %d, about %v left", p.name, p.measured, p.total, remaining.Round(time.Second))
	if p.disturbed > 0 {
		text += fmt.Sprintf("; %d disturbed", p.disturbed)
	}
	if disturbed != "" {
		text += ": " + disturbed
	}
	p.say(text)
}
