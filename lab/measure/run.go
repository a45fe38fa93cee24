package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/experiment"
	"pinfold.dev/pinfold/linux/owned"
	"pinfold.dev/pinfold/tracefile"
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
	// Cluster, if not nil, is a local cluster of which this machine is a node. Services are pods
	// there.
	Cluster kubernetes.Interface
}

// Names of the files of a run.
const (
	resultFile = "result.jsonl"
	usageFile  = "usage.parquet"
)

// run is a run of an experiment.
type run struct {
	Options
	config       experiment.Config
	scale        experiment.Scale
	machine      machine
	place        place
	inPods       bool // place is the cluster
	builtInImage string
	cpus         cpuset.Set
	environment  experiment.Environment
	rounds       int
	length       time.Duration // of a window
	began        time.Time
	every        map[string]time.Duration           // between requests, by load
	started      int                                // programs
	sites        int                                // of web servers
	temporary    string                             // directory of these sites
	real         map[experiment.Program]realProgram // those that no built-in one replaces
	loop         float64                            // nanoseconds of CPU time of an iteration in Apache
	lines        *experiment.Writer
	recording    tracefile.Recorder
}

// slot is a window to measure.
type slot struct {
	round     int // -1 for a measurement before the first round, whose samples are not kept
	condition experiment.Condition
	load      *experiment.Load
}

// Run measures an experiment. If ctx ends, it keeps what was measured, and returns the cause.
func Run(ctx context.Context, c experiment.Config, o Options) (err error) {
	if c, err = possible(ctx, c, o.Cluster != nil); err != nil {
		return err
	}
	if err := c.Check(); err != nil {
		return err
	}
	unlock, err := lock()
	if err != nil {
		return err
	}
	defer unlock()
	r := &run{Options: o, config: c, rounds: c.Rounds, length: c.Window.Duration, every: map[string]time.Duration{}}
	if o.Quick {
		r.rounds, r.length = c.Quick.Rounds, c.Quick.Window.Duration
	}
	r.rounds = cmp.Or(o.Rounds, r.rounds)
	if err := r.prepare(ctx); err != nil {
		return err
	}
	if r.temporary, err = os.MkdirTemp("", "pinfold-lab-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.temporary)) }()
	if err := os.Chmod(r.temporary, 0o755); err != nil { // the workers of Apache are another user
		return err
	}
	return r.record(func() (explained []experiment.Explanation, err error) {
		if err := r.measureAll(ctx); err != nil {
			return nil, err
		}
		return r.explainAll(ctx)
	})
}

// prepare finds out what this machine has, and makes the programs available.
func (r *run) prepare(ctx context.Context) (err error) {
	if r.machine, err = openMachine(); err != nil {
		return err
	}
	if r.cpus, err = r.machine.cpus(); err != nil {
		return err
	}
	r.environment = r.machine.environment()
	e := &r.environment
	e.CPUs, e.Pinfold, e.Quick = r.cpus.Len(), r.Version, r.Quick
	r.scale = experiment.Result{Config: r.config, Environment: *e}.Scale()
	if r.place = r.machine; r.Cluster != nil {
		e.Place = experiment.Cluster
		if err := r.openCluster(ctx, r.Cluster); err != nil {
			return err
		}
		if e.Background, err = r.background(ctx); err != nil {
			return err
		}
	}
	if err := r.checkSize(); err != nil {
		return err
	}
	e.Programs, err = r.findPrograms()
	return err
}

// record makes the directory of the run, and keeps there what measure measures, also if that fails.
func (r *run) record(measure func() ([]experiment.Explanation, error)) (err error) {
	if err := owned.Make(filepath.Dir(r.Dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(r.Dir, 0o755); err != nil {
		return fmt.Errorf("make the directory of the run: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(r.Dir, resultFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if r.lines, err = experiment.NewWriter(file, r.config, r.environment); err != nil {
		return err
	}
	r.began = r.environment.Started
	output := tracefile.Output{Name: filepath.Join(r.Dir, usageFile)}
	if r.recording, err = tracefile.Record(output, tracefile.Header{Start: r.began, Interval: recordEvery}); err != nil {
		return err
	}
	explained, err := measure()
	_, finished := r.recording.Finish()
	if errors.Is(finished, tracefile.ErrEmpty) {
		finished = nil
	}
	return errors.Join(err, r.lines.End(explained, err), finished)
}

// slots returns the windows of a round.
func (r *run) slots(round int) (all []slot) {
	for _, c := range r.config.Conditions {
		for i := range r.config.Loads {
			all = append(all, slot{round, c, &r.config.Loads[i]})
		}
		if len(r.config.Loads) == 0 {
			all = append(all, slot{round, c, nil})
		}
	}
	return all
}

// measureAll measures all rounds.
func (r *run) measureAll(ctx context.Context) error {
	if err := r.calibrateLoops(ctx); err != nil {
		return err
	}
	if err := r.calibrate(ctx); err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(r.config.Seed, 1))
	progress := progress{begun: time.Now(), say: r.Progress, name: r.config.Name, total: r.rounds * len(r.slots(0))}
	for round := range r.rounds {
		slots := r.slots(round)
		for _, i := range random.Perm(len(slots)) {
			if err := r.measureUndisturbed(ctx, slots[i], &progress); err != nil {
				return err
			}
		}
	}
	return nil
}

// measureUndisturbed measures a window, again if it was disturbed.
func (r *run) measureUndisturbed(ctx context.Context, at slot, progress *progress) error {
	for try := 0; ; try++ {
		w, err := r.window(ctx, at)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return fmt.Errorf("condition %q: %w", at.condition.Name, err)
		}
		if err := r.lines.Window(w); err != nil {
			return err
		}
		if w.Disturbed == "" || try == r.config.Repeated {
			progress.done(w.Disturbed)
			return nil
		}
	}
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

// calibrate finds the interval between the requests of random loads, with the first condition. A
// busy service needs less CPU time for each request, so the last measurement is with that interval.
func (r *run) calibrate(ctx context.Context) error {
	for i := range r.config.Loads {
		l := r.config.Loads[i]
		if l.Client != experiment.Random {
			continue
		}
		cpu := time.Millisecond
		for range 3 {
			r.every[l.Name] = time.Duration(float64(cpu) / float64(l.Use) / float64(r.cpus.Len()))
			w, err := r.window(ctx, slot{-1, r.config.Conditions[0], &l})
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
