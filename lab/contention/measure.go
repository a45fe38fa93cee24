package contention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/lab/experiment"
	"pinfold.dev/pinfold/lab/host"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/runqueue"
	"pinfold.dev/pinfold/linux/schedtrace"
)

// Options are those of a run.
type Options struct {
	Cases    int
	Duration time.Duration // of each case
	Command  []string      // of this run
	// Workload returns the command line of a built-in program.
	Workload func(args ...string) []string
	Progress func(string)
}

// Case is what was measured of a case, about its victim. Times are shares of Duration.
type Case struct {
	Number   int
	Kind     Kind
	Duration time.Duration
	// Traced and Sampled are for how long a thread of the victim waited.
	Traced, Sampled Waits
	// Throttled is for how long it was throttled, by the kernel's counter, and Pressure what the kernel
	// says of waiting (PSI, some), -1 if it says nothing.
	Throttled, Pressure float64
	// Cost is the CPU time of the samples in the kernel, as a share of all CPUs.
	Cost float64
}

// Waits are waits behind others, behind own threads, and who the others were.
type Waits struct {
	Others, Own float64
	Behind      map[string]float64
}

// Results are the results of a run.
type Results struct {
	Environment experiment.Environment
	Command     []string
	Cases       []Case
}

// stage stages cases.
type stage struct {
	Options
	machine host.Machine
	cpus    []cpuset.CPU
	sampler *runqueue.Sampler
}

// mostTries is how often a case is tried if events of the trace are lost.
const mostTries = 3

// Measure stages cases and measures them. If ctx ends, it returns those that were measured, and the cause.
func Measure(ctx context.Context, o Options) (r Results, err error) {
	unlock, err := host.Lock()
	if err != nil {
		return r, err
	}
	defer unlock()
	s := &stage{Options: o}
	if s.machine, err = host.Open(); err != nil {
		return r, err
	}
	all, err := s.machine.CPUs()
	if err != nil {
		return r, err
	}
	if s.cpus = slices.Collect(all.All()); len(s.cpus) < 2 {
		return r, errors.New("staging cases takes two CPUs")
	}
	r.Environment, r.Command = s.machine.Environment(), o.Command
	if s.sampler, err = runqueue.Open(); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.sampler.Close()) }()
	for number := range o.Cases {
		for try := 1; ; try++ {
			c, lost, err := s.run(ctx, number)
			if err != nil {
				if cause := context.Cause(ctx); cause != nil {
					return r, cause
				}
				return r, fmt.Errorf("case %d: %w", number, err)
			}
			if lost == 0 || try == mostTries {
				r.Cases = append(r.Cases, c)
				break
			}
		}
		o.Progress(fmt.Sprintf("case %d of %d", number+1, o.Cases))
	}
	return r, nil
}

// run runs a case.
func (s *stage) run(ctx context.Context, number int) (c Case, lost uint64, err error) {
	p := newPlan(number)
	c = Case{Number: number, Kind: p.kind, Pressure: -1}
	cpu, other := s.cpus[number%len(s.cpus)], s.cpus[(number+1)%len(s.cpus)]
	ctx, cancel := context.WithCancel(ctx)
	var running []*host.Process
	var psi *pressure
	defer func() {
		cancel()
		for _, one := range running {
			<-one.Done
			err = errors.Join(err, one.Err)
		}
		psi.remove()
	}()
	names := map[string]string{} // of groups
	for i, one := range p.programs {
		name := "victim"
		if i > 0 {
			name = fmt.Sprint("culprit ", i)
		}
		on := cpuset.Of(cpu)
		if one.otherCPU {
			on = cpuset.Of(other)
		}
		one.wanted.CPUs = &on
		if one.weight > 0 {
			weight := cgroup.Weight(one.weight * map[cgroup.Version]float64{cgroup.V1: 1024, cgroup.V2: 100}[s.machine.Groups.Layout().CPU])
			one.wanted.Weight = &weight
		}
		started, err := s.machine.Start(ctx, host.Program{Name: fmt.Sprintf("contention-%d-%d-%d", os.Getpid(), number, i), Title: name,
			BuiltIn: true, Command: s.Workload(one.args...), Wanted: one.wanted}, s.Progress)
		if err != nil {
			return c, 0, err
		}
		running, names[started.Group] = append(running, started), name
	}
	if p.outside != nil {
		go p.outside(ctx, cpu, other)
	}
	psi = newPressure(s.machine.Groups, running[0].Group)
	err = s.compare(ctx, &c, &lost, running[0].Group, names, psi)
	return c, lost, err
}

// reading is what counters and samples say of a victim.
type reading struct {
	at              time.Time
	throttled, some time.Duration   // some is that of its pressure
	waits           []runqueue.Wait // since the reading before
	cost            runqueue.Cost
}

func (s *stage) read(victim string, pressure *pressure) (r reading, err error) {
	waits, failed := s.sampler.Read()
	cost, err := s.sampler.Cost()
	stat, unread := s.machine.Sum([]string{victim})
	return reading{time.Now(), stat.ThrottledTime, pressure.read(), waits, cost}, errors.Join(failed, err, unread)
}

// compare traces and samples the victim.
func (s *stage) compare(ctx context.Context, c *Case, lost *uint64, victim string, names map[string]string, pressure *pressure) error {
	var (
		begin, end        reading
		failed            error
		spans             = map[string][]span{}
		cancelled, finish = context.WithTimeout(ctx, s.Duration+time.Minute)
	)
	defer finish()
	started := func() { begin, failed = s.read(victim, pressure) }
	passed := func(time.Duration) {
		if begin.at.IsZero() || time.Since(begin.at) < s.Duration || !end.at.IsZero() {
			return
		}
		var err error
		end, err = s.read(victim, pressure)
		failed = errors.Join(failed, err)
		finish()
	}
	traced, err := schedtrace.Observe(cancelled, s.machine.Groups, schedtrace.Request{Groups: []string{victim}, Started: started, Passed: passed,
		Span: func(o *schedtrace.Observation, _ blame.Group, one blame.Span) {
			if one.State == blame.Waiting {
				by := who(o.Path(one.By.Group), names)
				if one.By.Process == 0 && one.By.Group == 0 {
					by = idle
				}
				spans[by] = append(spans[by], span{one.From, one.To})
			}
		}}, schedtrace.Options{})
	if err = cmp.Or(context.Cause(ctx), err, failed); err != nil {
		return err
	}
	if end.at.IsZero() {
		return errors.New("the trace ended early")
	}
	*lost = traced.Cost.Lost
	ids, err := schedtrace.Groups(s.machine.Groups, "/")
	if err != nil {
		return err
	}
	c.fill(begin, end, spans, ids, names)
	if pressure == nil {
		c.Pressure = -1
	}
	return nil
}

// fill sets what was measured from one reading to another: spans are traced waits by who was before, ids those of all
// groups, and names the programs of some.
func (c *Case) fill(begin, end reading, spans map[string][]span, ids map[string]blame.Group, names map[string]string) {
	c.Duration = end.at.Sub(begin.at)
	share := func(d time.Duration) float64 { return float64(d) / float64(c.Duration) }
	c.Traced.Behind, c.Sampled.Behind = map[string]float64{}, map[string]float64{}
	for by, all := range spans {
		c.Traced.add(by, share(union(all)))
	}
	paths := map[blame.Group]string{}
	for name, id := range ids {
		paths[id] = name
	}
	for i := range end.waits {
		w := &end.waits[i]
		if who(paths[w.Group], names) == "victim" {
			by := map[runqueue.Behind]string{runqueue.Group: who(paths[w.Other], names), runqueue.Root: "/", runqueue.Nothing: idle, runqueue.Machine: "the machine"}[w.Behind]
			c.Sampled.add(by, share(w.Time))
		}
	}
	c.Throttled, c.Pressure = share(end.throttled-begin.throttled), share(end.some-begin.some)
	c.Cost = share(end.cost.Time-begin.cost.Time) / float64(runtime.NumCPU())
}

// idle is that the CPU was idle, and had not switched to the thread yet.
const idle = "idle"

// who returns the program of a group, or the group itself; the root for what is in none.
func who(group string, names map[string]string) string {
	if group == "" {
		return "/"
	}
	for name, what := range names {
		if group == name || strings.HasPrefix(group, name+"/") {
			return what
		}
	}
	return group
}

func (w *Waits) add(by string, share float64) {
	switch by {
	case "victim":
		w.Own += share
		return
	case idle:
		return
	}
	w.Others += share
	w.Behind[by] += share
}

// span is a time in which a thread waited.
type span struct{ from, to time.Duration }

// union returns the time in which at least one thread waited.
func union(spans []span) (sum time.Duration) {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	until := time.Duration(0)
	for _, one := range spans {
		sum += max(0, one.to-max(one.from, until))
		until = max(until, one.to)
	}
	return sum
}

// pressure is a group of version 2 with the processes of the victim. nil reads as nothing.
type pressure struct {
	dir  string
	made bool // it is not the victim's own group
}

// newPressure moves the processes of a group to one of version 2, where the kernel measures their pressure;
// nil if that is not possible.
func newPressure(groups *cgroup.FS, victim string) *pressure {
	for _, mount := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		if _, err := os.Stat(mount + "/cgroup.controllers"); err != nil {
			continue
		}
		if mount == groups.Dir(cgroup.CPU, "/") {
			return &pressure{dir: groups.Dir(cgroup.CPU, victim)}
		}
		p := &pressure{filepath.Join(mount, filepath.Base(victim)), true}
		if err := os.Mkdir(p.dir, 0o755); err != nil {
			return nil
		}
		all, _ := filepath.Glob(groups.Dir(cgroup.CPU, victim) + "/*/cgroup.procs")
		for _, file := range append(all, groups.Dir(cgroup.CPU, victim)+"/cgroup.procs") {
			text, _ := os.ReadFile(file)
			for _, pid := range strings.Fields(string(text)) {
				if err := os.WriteFile(filepath.Join(p.dir, "cgroup.procs"), []byte(pid), 0); err != nil {
					p.remove()
					return nil
				}
			}
		}
		return p
	}
	return nil
}

// read returns for how long at least one thread waited.
func (p *pressure) read() time.Duration {
	if p == nil {
		return 0
	}
	text, _ := os.ReadFile(filepath.Join(p.dir, "cpu.pressure"))
	line, _, _ := strings.Cut(string(text), "\n")
	_, total, _ := strings.Cut(line, "total=")
	us, _ := strconv.ParseInt(strings.TrimSpace(total), 10, 64)
	return time.Duration(us) * time.Microsecond
}

// remove removes the group, when its processes have ended.
func (p *pressure) remove() {
	if p == nil || !p.made {
		return
	}
	for range 100 {
		if err := os.Remove(p.dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
