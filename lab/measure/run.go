package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/kubernetes"

	"pinfold.dev/pinfold/core/experiment"
)

// Options are the options of a run.
type Options struct {
	Dir    string // of the run; it must not exist
	Quick  bool
	Rounds int // 0: those of the experiment
	// Within, if above 0, is how long a run may go on until it has concluded for all answers of the
	// experiment. It looks after its rounds, and after twice as many each time.
	Within  time.Duration
	BuiltIn bool   // built-in programs replace those that are installed
	Version string // of this program
	// Workload returns the command line of a built-in program.
	Workload func(args ...string) []string
	Progress func(string)
	// Cluster, if not nil, is a local cluster of which this machine is a node. Services are pods
	// there.
	Cluster kubernetes.Interface
}

// Run measures an experiment. If ctx ends, it keeps what was measured, and returns the cause.
func Run(ctx context.Context, c experiment.Config, o Options) (err error) {
	unlock, err := lock()
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
	windows   []experiment.Window
}

// slot is a window to measure.
type slot struct {
	experiment.Setup
	round int // below 0 for a measurement before the first round, which is not kept
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
		if slices.Contains(r.looks, round) && r.concluded() {
			r.say(fmt.Sprintf("%s: concluded after %d rounds", r.config.Name, round))
			break
		}
		for _, i := range random.Perm(len(r.setups)) {
			if err := r.measureUndisturbed(ctx, slot{r.setups[i], round}, &progress); err != nil {
				return nil, err
			}
		}
	}
	return r.explainAll(ctx)
}

// concluded reports whether more rounds would change nothing that the experiment asks.
func (r *run) concluded() bool {
	unanswered := experiment.Result{Config: r.config, Environment: r.environment, Windows: r.windows}.Unanswered()
	for _, a := range unanswered {
		r.say(fmt.Sprintf("%s: cannot conclude yet: %s, %s", r.config.Name, a.Figure, a.Condition))
	}
	return len(unanswered) == 0
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
		var m *meter
		beginning := func() (err error) {
			if err = r.machine.schedule(unix.SCHED_RR, 1, running.shared); err == nil { // also threads that have been started since
				m, err = begin(ctx, r.lab, running)
			}
			return err
		}
		var client time.Duration
		var err error
		if at.Load == nil {
			if _, err = r.generator.send(ctx, at, running, 0, beginning); err == nil {
				err = running.wait(ctx, w.Figures, r.length)
			}
		} else {
			client, err = r.request(ctx, &w, at, running, beginning)
		}
		if m != nil {
			defer m.recorder.cancel()
		}
		if err != nil {
			return err
		}
		return m.end(&w, client)
	})
	return w, err
}

// during runs the services of a setup, and calls measure, with the scheduling class of the load
// generator.
func (r *run) during(ctx context.Context, at slot, measure func(*services) error) (err error) {
	running, err := r.launcher.start(ctx, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(running.stop(), err) }()
	if r.cluster == nil { // an agent does that for pods
		endControl, err := controller{r.machine, r.cpus, r.launcher.dir}.start(ctx, running)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, endControl()) }()
	}
	defer func() { err = errors.Join(err, r.machine.schedule(unix.SCHED_NORMAL, 0, r.cpus)) }()
	if err := r.machine.schedule(unix.SCHED_RR, 1, running.shared); err != nil {
		return err
	}
	return measure(running)
}

// request sends the load of a window, which begins with begin, and adds what it has measured. It returns
// the CPU time of a load generator that is another program.
func (r *run) request(ctx context.Context, w *measured, at slot, running *services, begin func() error) (time.Duration, error) {
	s, err := r.generator.send(ctx, at, running, r.length, begin)
	if err != nil {
		return 0, err
	}
	if s.figures[experiment.Calls] == 0 {
		return 0, fmt.Errorf("no request was answered: %s", cmp.Or(s.failed, "none was sent"))
	}
	w.Figures, w.Disturbed = s.figures, s.failed
	w.Latencies, err = histogram(s.latencies)
	return s.client, err
}

// calibrate finds the intervals between requests with which the service uses as many CPUs in the
// first condition as loads say. A busy service needs less CPU time for each request, and clients
// that are on and off send a different number in each window, so it repeats that and ends with
// several windows. Clients that wait for an answer have its latency between requests, besides.
func (r *run) calibrate(ctx context.Context) error {
	for _, s := range r.setups {
		if s.Load == nil || s.Condition != r.setups[0].Condition {
			continue
		}
		if first := s.Services[0]; s.Load.Client == experiment.Batches && first.Program == experiment.Httpd && first.Request.CPU.Duration > 0 && r.launcher.loop > 0 {
			if err := r.calibrateLoop(ctx, s); err != nil {
				return err
			}
		}
		if s.Load.Use == 0 {
			continue
		}
		want := float64(s.Load.Use) * float64(r.cpus.Len())
		every := s.Load.Pause.Duration
		if every == 0 {
			every = time.Duration(float64(time.Millisecond) / want) // for a request of a millisecond
		}
		round := -1
		for _, windows := range []int{1, 1, 1, 4} {
			used, latency := 0., time.Duration(0)
			for range windows {
				r.generator.every[s.Load.Name] = every
				w, err := r.window(ctx, slot{s, round})
				if err != nil {
					return fmt.Errorf("measure the CPU time of requests: %w", err)
				}
				used += w.Figures[experiment.Used] / float64(windows)
				if s.Load.Client == experiment.OnOff {
					latency += time.Duration(w.Figures[experiment.Mean] / float64(windows) * float64(time.Millisecond))
				}
				round--
			}
			if used <= 0 {
				return errors.New("measure the CPU time of requests: the service used none")
			}
			every = max(time.Microsecond, time.Duration(float64(every+latency)*used/want)-latency)
		}
		r.generator.every[s.Load.Name] = every
	}
	return nil
}

// calibrateLoop corrects how long an iteration of Apache's loop takes by what requests use under a load
// of batches: more than on an idle machine.
func (r *run) calibrateLoop(ctx context.Context, s experiment.Setup) error {
	want := float64(s.Load.Batch.Count()) * s.Services[0].Request.CPU.Seconds() / s.Load.Every.Seconds()
	round := -1
	for _, windows := range []int{1, 2} {
		used := 0.
		for range windows {
			w, err := r.window(ctx, slot{s, round})
			if err != nil {
				return fmt.Errorf("measure the CPU time of requests: %w", err)
			}
			used += w.Figures[experiment.Used] / float64(windows)
			round--
		}
		r.launcher.loop *= used / want // window fails without answers
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
	left := time.Since(p.begun) / time.Duration(p.measured) * time.Duration(p.total-p.measured)
	text := fmt.Sprintf("%s: window %d of %d, about %v left", p.name, p.measured, p.total, left.Round(time.Second))
	if p.disturbed > 0 {
		text += fmt.Sprintf("; %d disturbed", p.disturbed)
	}
	if disturbed != "" {
		text += ": " + disturbed
	}
	p.say(text)
}
