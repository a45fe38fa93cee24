package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/lab/experiment"
	"pinfold.dev/pinfold/lab/host"
	"pinfold.dev/pinfold/lab/programs"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/local/load"
)

// launcher starts the programs of services.
type launcher struct {
	*lab
	workload func(args ...string) []string           // the command line of a built-in program
	real     map[experiment.Program]programs.Program // those that no built-in one replaces
	dir      string                                  // of the sites of web servers
	started  int                                     // programs
	loop     float64                                 // nanoseconds of CPU time of an iteration in Apache
}

// realPrograms returns the names in package programs of the programs that are not built in.
func realPrograms() map[experiment.Program]string {
	return map[experiment.Program]string{experiment.Nginx: "nginx", experiment.Httpd: "apache2", experiment.FFmpeg: "ffmpeg", wrk: "wrk"}
}

// wrk is the program of loads with the client [experiment.Wrk].
const wrk = experiment.Program(experiment.Wrk)

// newLauncher finds the programs of an experiment. Its environment receives the version of each, or
// why a built-in one replaces it.
func newLauncher(prepared *lab, o Options) (l *launcher, err error) {
	l = &launcher{lab: prepared, workload: o.Workload, real: map[experiment.Program]programs.Program{}}
	l.environment.Programs = map[experiment.Program]string{}
	for _, setup := range l.setups {
		if setup.Load != nil && setup.Load.Client == experiment.Wrk {
			err = l.find(wrk, o.BuiltIn)
		}
		for _, s := range setup.Services {
			err = errors.Join(err, l.find(s.Program, o.BuiltIn))
		}
		if err != nil {
			return nil, err
		}
	}
	if l.dir, err = os.MkdirTemp("", "pinfold-lab-"); err != nil {
		return nil, err
	}
	if err := os.Chmod(l.dir, 0o755); err != nil { // the workers of Apache are another user
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func (l *launcher) close() error { return os.RemoveAll(l.dir) }

// find finds a program.
func (l *launcher) find(p experiment.Program, builtIn bool) error {
	versions := l.environment.Programs
	name, real := realPrograms()[p]
	switch {
	case versions[p] != "":
		return nil
	case !real:
		versions[p] = "built in"
		return nil
	case builtIn:
		versions[p] = "built in, in place of " + name
		return nil
	}
	found, err := programs.Find(name)
	if errors.Is(err, exec.ErrNotFound) {
		versions[p] = fmt.Sprintf("built in: %v", err)
		l.say(fmt.Sprintf("%s: a built-in program replaces %s: %v", l.config.Name, name, err))
		return nil
	}
	versions[p], l.real[p] = found.Version, found
	return err
}

// program is a program to start, and the path of the URL of its requests, without the leading slash.
type program struct {
	host.Program
	path string
}

// program returns a replica of a service. next is the URL that a server calls, and seed that of the
// demand of a program.
func (l *launcher) program(s experiment.Service, next string, seed uint64) (one program, err error) {
	threads := l.cpus.Len()
	if s.Threads.Value > 0 {
		threads = s.Threads.Count()
	}
	one.Name = l.newName()
	found, real := l.real[s.Program]
	if one.BuiltIn = !real; one.BuiltIn {
		one.Command, one.path = l.workload(l.builtIn(s, threads, next, seed)...), query(s.Request)
		return one, nil
	}
	var args []string
	if s.Program == experiment.FFmpeg {
		args = programs.FFmpeg(threads)
	} else {
		args, err = l.site(&one, s, found, threads)
	}
	one.Command = found.Command(args...)
	return one, err
}

// newName returns the unique part of the name of a group.
func (l *launcher) newName() string {
	l.started++
	return fmt.Sprintf("lab-%d-%d", os.Getpid(), l.started)
}

// site makes the directory of a real web server, completes it with its address and the path of
// requests, and returns its arguments.
func (l *launcher) site(one *program, s experiment.Service, real programs.Program, threads int) (args []string, err error) {
	if one.Address, err = host.FreeAddress(); err != nil {
		return nil, err
	}
	request := s.Request
	site := programs.Site{Dir: filepath.Join(l.dir, one.Name), Address: one.Address, Bytes: request.Hash, Workers: threads}
	if s.Program == experiment.Nginx {
		site.Compress = request.Hash > 0
		return real.Nginx(site)
	}
	if request.CPU.Duration > 0 {
		one.path = strings.TrimPrefix(programs.CPUPath(int(float64(request.CPU.Duration)/l.loop)), "/")
	}
	site.Workers = 64 // more than connections
	return real.Apache(site)
}

// query asks the built-in server for the work of a request.
func query(r experiment.Request) string {
	switch {
	case r.CPU.Duration > 0:
		return "?cpu=" + r.CPU.String()
	case r.Hash > 0:
		return "?hash=" + strconv.Itoa(r.Hash)
	}
	return ""
}

// builtIn returns the arguments of a built-in program.
func (l *launcher) builtIn(s experiment.Service, threads int, next string, seed uint64) []string {
	args := []string{"--threads=" + strconv.Itoa(threads)}
	switch s.Program {
	case experiment.Cycles:
		return append([]string{"cycles", "--compute=" + s.Compute.String(), "--sleep=" + s.Sleep.String()}, args...)
	case experiment.Demand:
		mean := time.Duration(float64(s.Use) * float64(l.cpus.Len()) * float64(trace.DefaultPeriod))
		return append([]string{"demand", "--compute=" + mean.String(), "--seed=" + strconv.FormatUint(seed, 10)}, args...)
	case experiment.Pi:
		return append([]string{"pi", "--digits=" + strconv.Itoa(s.Digits)}, args...)
	case experiment.Batch, experiment.FFmpeg:
		return append([]string{"batch"}, args...)
	}
	args = append(args, "--listen=127.0.0.1:0")
	if next != "" {
		args = append(args, "--next="+next)
	}
	return append([]string{"web"}, args...)
}

// calibrate measures how long an iteration of the loop takes with which Apache uses CPU time, if a
// service needs it.
func (l *launcher) calibrate(ctx context.Context) error {
	if _, real := l.real[experiment.Httpd]; !real {
		return nil
	}
	for _, setup := range l.setups {
		for _, s := range setup.Services {
			if s.Program == experiment.Httpd && s.Request.CPU.Duration > 0 {
				return l.measureLoop(ctx, s.Name)
			}
		}
	}
	return nil
}

func (l *launcher) measureLoop(ctx context.Context, title string) error {
	one, err := l.program(experiment.Service{Program: experiment.Httpd}, "", 0)
	if err != nil {
		return err
	}
	one.Title = title
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p, err := l.machine.Start(ctx, one.Program, l.say)
	if err != nil {
		return err
	}
	defer func() { cancel(); <-p.Done }()
	const loops, requests = 2_000_000, 10
	sender, err := load.NewHTTP("http://" + p.Address + programs.CPUPath(loops))
	if err != nil {
		return err
	}
	defer sender.Close()
	before, err := cgroupstat.Read(l.machine.Groups, p.Group)
	if err != nil {
		return err
	}
	for range requests {
		if err := sender.Send(ctx); err != nil {
			return fmt.Errorf("measure the CPU time of a request: %w", err)
		}
	}
	after, err := cgroupstat.Read(l.machine.Groups, p.Group)
	if err != nil {
		return err
	}
	if l.loop = float64(after.Usage-before.Usage) / loops / requests; l.loop <= 0 {
		return errors.New("measure the CPU time of a request: it used none")
	}
	return nil
}
