package judge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/internal/atomicfile"
	"pinfold.dev/pinfold/lab/host"
	"pinfold.dev/pinfold/lab/programs"
)

// Options are the options of a run.
type Options struct {
	Dir     string // of the results
	Size    Size
	Only    *regexp.Regexp // rows to measure, by their names; nil for all
	Pinfold string         // the program
	Command []string       // of this run
	Version string
	// Workload returns the command line of a built-in program.
	Workload func(args ...string) []string
	Progress func(string)
}

// judge is a run.
type judge struct {
	Options
	*archive
	machine  host.Machine
	all      cpuset.Set
	cpus     int
	services []service
	found    map[string]map[string]programs.Program // by service
	dir      string                                 // of files of programs
	started  int
	patience time.Duration
	begun    time.Time
}

// Measure measures what is not in the results yet, and writes the table. If ctx ends, it keeps what was
// measured, and returns the cause.
func Measure(ctx context.Context, o Options) (err error) {
	if err := o.Size.Check(); err != nil {
		return err
	}
	unlock, err := host.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	j := &judge{Options: o, patience: o.Size.Patience, begun: time.Now(),
		services: services(o.Workload), found: map[string]map[string]programs.Program{}}
	if len(j.chosen()) == 0 {
		return fmt.Errorf("no recording has a name that matches %q: they are like python/limit/crowd and go/free/idle", j.Only)
	}
	if err := j.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.file.Close(), os.RemoveAll(j.dir)) }()
	if err := j.measureAll(ctx); err != nil {
		return errors.Join(err, j.table())
	}
	return j.table()
}

// open opens the machine and the results. Those of another size are not continued.
func (j *judge) open() (err error) {
	if err := j.openMachine(); err != nil {
		return err
	}
	if j.archive, err = openArchive(j.Dir); err != nil {
		return err
	}
	s := &Session{Environment: j.machine.Environment(), Size: j.Size, Command: j.Command, Commit: commit(j.Version)}
	s.CPUs, s.Pinfold = j.cpus, j.Version
	if j.Only != nil {
		s.Only = j.Only.String()
	}
	s.Size.Patience = 0
	if len(j.Sessions) > 0 {
		if first := j.Sessions[0]; first.Size != s.Size || first.Kernel != s.Kernel || first.Model != s.Model || first.CPUs != s.CPUs {
			return errors.Join(fmt.Errorf("%s has results of another size or machine: choose another directory", j.file.Name()), j.file.Close())
		}
	}
	err = j.makeDir()
	return errors.Join(err, j.write(line{Session: s}))
}

// openMachine opens the machine.
func (j *judge) openMachine() (err error) {
	if j.machine, err = host.Open(); err == nil {
		j.all, err = j.machine.CPUs()
	}
	j.cpus = j.all.Len()
	return err
}

// makeDir makes the directory of the programs' files.
func (j *judge) makeDir() (err error) {
	if j.dir, err = os.MkdirTemp("", "pinfold-advice-"); err == nil {
		err = os.Chmod(j.dir, 0o755) // the workers of Apache are another user
	}
	return err
}

// commit returns the commit of the working directory, or else the version.
func commit(version string) string {
	head, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return version
	}
	text := strings.TrimSpace(string(head))
	if changed, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no").Output(); err != nil || len(changed) > 0 {
		text += " with changes"
	}
	return text
}

// newName returns the unique part of the name of a group.
func (j *judge) newName() string {
	j.started++
	return fmt.Sprintf("advice-%d-%d", os.Getpid(), j.started)
}

// measureAll measures all rows that are to be measured, and missing.
func (j *judge) measureAll(ctx context.Context) error {
	chosen := j.chosen()
	j.Progress(fmt.Sprintf("%d recordings, about %v if all give advice, and up to %v of waiting for an idle machine",
		len(chosen), j.Size.time(len(chosen)).Round(time.Second), j.Size.Patience))
	for i, row := range chosen {
		if err := j.row(ctx, row); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return fmt.Errorf("%s: %w", row, err)
		}
		j.Progress(fmt.Sprintf("%s: done, %d of %d, after %v", row, i+1, len(chosen), time.Since(j.begun).Round(time.Second)))
	}
	return nil
}

func (j *judge) chosen() (chosen []Row) {
	var names []string
	for _, s := range j.services {
		names = append(names, s.name)
	}
	for _, row := range rows(names) {
		if j.Only == nil || j.Only.MatchString(row.String()) {
			chosen = append(chosen, row)
		}
	}
	return chosen
}

// row records a row, and tries the advice.
func (j *judge) row(ctx context.Context, row Row) error {
	s := *find(j.services, func(s *service) bool { return s.name == row.Program })
	program, err := j.prepare(ctx, s)
	if err != nil || program.Missing != "" {
		return err
	}
	recording := j.recording(row)
	if recording == nil {
		if recording, err = j.record(ctx, s, *program, row); err != nil {
			return err
		}
	}
	if !recording.Advice.Enough {
		return nil
	}
	for number := range j.Size.Runs {
		for _, on := range tried() {
			if j.run(row, on, number) == nil {
				if err := j.try(ctx, s, *program, *recording, on, number); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// prepare finds a program and measures its requests, once for all sessions.
func (j *judge) prepare(ctx context.Context, s service) (*Program, error) {
	found, version, missing, err := s.find()
	if err != nil {
		return nil, err
	}
	j.found[s.name] = found
	if known := j.program(s.name); known != nil {
		return known, nil
	}
	p := &Program{Name: s.name, Version: version, Missing: missing}
	if missing == "" {
		if err := j.calibrate(ctx, s, p); err != nil {
			return nil, err
		}
	} else {
		j.Progress(fmt.Sprintf("%s is left out: %s", s.name, missing))
	}
	return p, j.write(line{Program: p})
}

// calibrate finds the amount of work of a request, and how often requests come. A program that serves
// several at a time may need less CPU time for each, so that is measured under the load.
func (j *judge) calibrate(ctx context.Context, s service, p *Program) error {
	p.Amount, p.Every = max(1, int(s.cost/s.unit)), time.Duration(float64(s.cost)/Use)
	for range 2 {
		length := max(min(max(4*time.Second, 40*p.Every), j.Size.Record/2), 8*p.Every)
		m, err := trial{judge: j, service: s, load: *p, beside: Idle, length: length, seed: 1}.measure(ctx)
		if err != nil {
			return fmt.Errorf("measure the CPU time of a request: %w", err)
		}
		each := m.Used * float64(m.Time) / float64(len(m.Latencies))
		if !(each > 0) || len(m.Latencies) == 0 {
			return fmt.Errorf("measure the CPU time of a request: %d were answered, with %.2f CPUs", len(m.Latencies), m.Used)
		}
		before := p.Amount
		if off := each / float64(s.cost); off > 1.5 || off < 1/1.5 {
			p.Amount = max(1, int(float64(before)/off))
		}
		p.Every = time.Duration(each * float64(p.Amount) / float64(before) / Use)
	}
	j.Progress(fmt.Sprintf("%s: a request of %v every %v", s.name, time.Duration(float64(p.Every)*Use).Round(time.Millisecond/10), p.Every.Round(time.Millisecond)))
	return nil
}

// seed returns the seed of the requests of a trial, another one in each.
func seed(of string) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range []byte(of) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// patiently makes a trial until it is not disturbed, or there is no patience left. One that fails is
// made again once: a busy machine may start a program too late.
func (j *judge) patiently(ctx context.Context, t trial) (m Measured, err error) {
	for tries := 1; ; tries++ {
		begun := time.Now()
		m, err = t.measure(ctx)
		why := m.Disturbed
		if err != nil {
			why = err.Error()
		}
		if why == "" || ctx.Err() != nil || err != nil && tries > 1 || err == nil && j.patience <= 0 {
			return m, err
		}
		j.Progress("once more: " + why)
		j.patience -= time.Since(begun)
	}
}

// try makes a run under an advised limit.
func (j *judge) try(ctx context.Context, s service, p Program, r Recording, on Beside, number int) error {
	quota := time.Duration(r.Advice.LimitCPUs * float64(period)).Round(time.Microsecond)
	limits := bandwidth.Limits{Quota: quota, Period: period, Burst: time.Duration(r.Advice.BurstPercent / 100 * float64(quota)).Round(time.Microsecond)}
	m, err := j.patiently(ctx, trial{judge: j, service: s, load: p, beside: on, limits: &limits, length: j.Size.Apply,
		seed: seed(fmt.Sprint(r.Row, on, number))})
	if err != nil {
		return err
	}
	return j.write(line{Run: &Run{Row: r.Row, On: on, Number: number, Measured: m}})
}

// table writes the table.
func (j *judge) table() error {
	return atomicfile.WriteFunc(j.Dir+"/"+Table, atomicfile.Options{}, func(f *os.File) error { return j.Markdown(f) })
}
