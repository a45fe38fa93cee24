package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
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
	Dir    string // of the run; it must not exist
	Quick  bool
	Rounds int // 0: those of the experiment
	// Budget, if it is not 0, is how long rounds may be measured until the experiment has its answers.
	Budget  time.Duration
	BuiltIn bool   // built-in programs replace those that are installed
	Version string // of this program
	Command string // that repeats the run
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
	r := &run{lab: prepared, launcher: launcher, generator: &generator{launcher, map[string]time.Duration{}}, archive: archive}
	explained, err := r.measureAll(ctx)
	return archive.end(explained, err)
}

// run measures windows, in order.
type run struct {
	*lab
	launcher  *launcher
	generator *generator
	archive   *archive
	windows   []experiment.Window // all that were measured
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
	atMost := ""
	if r.config.Most > 0 {
		atMost = "at most "
	}
	r.say(fmt.Sprintf("%s: %s%d windows, %v; those that other programs disturb are measured again, up to %d times",
		r.config.Name, atMost, r.rounds*len(r.setups), r.time().Round(time.Second), r.config.Repeated))
	random := rand.New(rand.NewPCG(r.config.Seed, 1))
	progress := progress{begun: time.Now(), say: r.say, name: r.config.Name, total: r.rounds * len(r.setups)}
	for round := range r.rounds {
		for _, i := range random.Perm(len(r.setups)) {
			if err := r.measureUndisturbed(ctx, slot{r.setups[i], round}, &progress); err != nil {
				return nil, err
			}
			if spent := time.Since(progress.begun); r.budget > 0 && spent > r.budget {
				r.say(fmt.Sprintf("%s: the budget is spent after %v, in round %d", r.config.Name, spent.Round(time.Second), round+1))
				return r.explainAll(ctx)
			}
		}
		if r.config.Most > 0 && round+1 >= experiment.MinRounds && (experiment.Result{Config: r.config, Windows: r.windows}).Concluded() {
			r.say(fmt.Sprintf("%s: concluded after %d rounds", r.config.Name, round+1))
			break
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
		r.windows = append(r.windows, w.Window)
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

// calibrate finds the pauses between requests with which the service has the use of the loads, in the first
// condition. A busy service needs less CPU time for each request, so the last measurement is with the last pause.
func (r *run) calibrate(ctx context.Context) error {
	for _, s := range r.setups {
		l := s.Load
		if l == nil || l.Use == 0 || s.Condition != r.setups[0].Condition {
			continue
		}
		steady := *l // clients that are always on: as many as are on at a time
		steady.Clients = experiment.Amount{Value: max(1, math.Round(l.Active()))}
		steady.On.Duration, steady.Off.Duration = always, 1
		s.Load = &steady
		pause := cmp.Or(l.Pause.Duration, time.Duration(float64(time.Millisecond)/float64(l.Use)/float64(r.cpus.Len())))
		for range calibrations {
			if pause <= 0 {
				pause = time.Microsecond // a busy service may need less
			}
			r.generator.pauses[l.Name] = pause
			w, err := r.window(ctx, slot{s, -1})
			if err != nil {
				return fmt.Errorf("measure the CPU time of a request: %w", err)
			}
			if pause, err = pauseFor(l, steady.Clients.Value, pause, w.Figures, r.cpus.Len()); err != nil {
				return err
			}
		}
		if pause <= 0 {
			return fmt.Errorf("load %q: %d clients cannot make the service use %v of the CPUs: use more, or less use", l.Name, l.Clients.Count(), l.Use)
		}
		r.say(fmt.Sprintf("%s: load %q with a pause of %v", r.config.Name, l.Name, r.generator.pauses[l.Name]))
	}
	return nil
}

// calibrations is how often the use of a load is measured.
const calibrations = 4

// pauseFor returns the pause with which a load has its use, if requests cost what they did with the given figures, of
// clients that were always on with another pause. It is 0 or less if even busy clients cannot make the service use
// that much.
func pauseFor(l *experiment.Load, clients float64, pause time.Duration, figures map[experiment.Figure]float64, cpus int) (time.Duration, error) {
	used, calls := figures[experiment.Used], figures[experiment.Calls]
	if !(used > 0 && calls > 0) {
		return 0, errors.New("measure the CPU time of a request: the service used none")
	}
	next := l.Active() * used / calls / (float64(l.Use) * float64(cpus))
	if l.Client == experiment.OnOff { // the pause follows the answer, and ends a little late
		next -= clients/calls - pause.Seconds()
	}
	return time.Duration(next * float64(time.Second)), nil
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
