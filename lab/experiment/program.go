package experiment

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/experiment"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/lab/load"
	"pinfold.dev/pinfold/lab/pods"
	"pinfold.dev/pinfold/lab/programs"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
)

// realPrograms returns the names in package programs of the programs that are not built in.
func realPrograms() map[experiment.Program]string {
	return map[experiment.Program]string{experiment.Nginx: "nginx", experiment.Httpd: "apache2", experiment.FFmpeg: "ffmpeg", wrk: "wrk"}
}

// wrk is the program of loads with the client [experiment.Wrk].
const wrk = experiment.Program(experiment.Wrk)

// findPrograms finds the real programs of an experiment. It returns the version of each program, or
// why a built-in one replaces it.
func (r *run) findPrograms() (versions map[experiment.Program]string, err error) {
	versions, r.real = map[experiment.Program]string{}, map[experiment.Program]realProgram{}
	used := map[experiment.Program]bool{}
	services, err := r.everyService()
	if err != nil {
		return nil, err
	}
	for _, s := range services {
		used[s.Program] = true
	}
	for _, l := range r.config.Loads {
		used[wrk] = used[wrk] || l.Client == experiment.Wrk
	}
	for p, is := range used {
		name, real := realPrograms()[p]
		switch {
		case !is:
			continue
		case !real:
			versions[p] = "built in"
			continue
		case r.BuiltIn:
			versions[p] = "built in, in place of " + name
			continue
		}
		found, err := programs.Find(name)
		switch {
		case errors.Is(err, exec.ErrNotFound):
			versions[p] = fmt.Sprintf("built in: %v", err)
			r.Progress(fmt.Sprintf("%s: a built-in program replaces %s: %v", r.config.Name, name, err))
		case err != nil:
			return nil, err
		default:
			versions[p] = found.Version
			if r.real[p], err = r.realProgram(found); err != nil {
				return nil, err
			}
		}
	}
	return versions, nil
}

// realProgram is a program of this machine with its image, which is "" where programs do not run in
// pods.
type realProgram struct {
	programs.Program
	image string
}

func (r *run) realProgram(p programs.Program) (realProgram, error) {
	if !r.inPods || p.Name == realPrograms()[wrk] { // which runs outside of pods
		return realProgram{p, ""}, nil
	}
	image, err := pods.ImageOf(p)
	return realProgram{p, image}, err
}

// everyService returns the services of all conditions.
func (r *run) everyService() (all []experiment.Service, err error) {
	for _, condition := range r.config.Conditions {
		services, err := condition.In(r.config.Services)
		if err != nil {
			return nil, err
		}
		all = append(all, services...)
	}
	return all, nil
}

// program returns the command line of a replica of a service, and the path of the URL of its
// requests. next is the URL that a server calls, and seed that of the demand of a program.
func (r *run) program(s experiment.Service, next string, seed uint64) (program, string, error) {
	threads := r.scale.CPUs
	if s.Threads.Value > 0 {
		threads = s.Threads.Count(r.scale)
	}
	found, real := r.real[s.Program]
	one := program{builtIn: !real, image: found.image, service: s}
	if !real {
		if r.inPods {
			one.image = r.builtInImage
		}
		one.command = r.Workload(r.builtIn(s, threads, next, seed)...)
		one.args = one.command[1:]
		return one, query(s.Request), nil
	}
	path := ""
	var err error
	if one.args, err = r.arguments(&one, found.Program, threads); err != nil {
		return one, "", err
	}
	if s.Program == experiment.Httpd {
		path = r.path(s.Request)
	}
	one.command = found.Command(one.args...)
	return one, path, nil
}

// arguments returns those of a real program, and sets its address and the directory that it needs.
func (r *run) arguments(one *program, real programs.Program, threads int) (args []string, err error) {
	s := one.service
	if s.Program == experiment.FFmpeg {
		return programs.FFmpeg(threads), nil
	}
	if one.address, err = freeAddress(); err != nil {
		return nil, err
	}
	r.sites++
	one.dir = filepath.Join(r.temporary, strconv.Itoa(r.sites))
	site := programs.Site{Dir: one.dir, Address: one.address, Bytes: max(s.Request.Size, s.Request.Hash), Workers: threads}
	if s.Program == experiment.Nginx {
		site.Compress = s.Request.Hash > 0
		return real.Nginx(site)
	}
	site.Workers = 64 // more than connections
	return real.Apache(site, programs.Event)
}

// freeAddress returns a loopback address on which nothing listens.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
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
func (r *run) builtIn(s experiment.Service, threads int, next string, seed uint64) []string {
	args := []string{"--threads=" + strconv.Itoa(threads)}
	switch s.Program {
	case experiment.Cycles:
		return append([]string{"cycles", "--compute=" + s.Compute.String(), "--sleep=" + s.Sleep.String()}, args...)
	case experiment.Demand:
		mean := time.Duration(float64(s.Use) * float64(r.scale.CPUs) * float64(trace.DefaultPeriod))
		return append([]string{"demand", "--compute=" + mean.String(), "--seed=" + strconv.FormatUint(seed, 10)}, args...)
	case experiment.Pi:
		return append([]string{"pi", "--digits=" + strconv.Itoa(s.Digits)}, args...)
	case experiment.Batch, experiment.FFmpeg:
		return append([]string{"batch"}, args...)
	}
	args = append(args, "--listen=127.0.0.1:0")
	if s.Request.Size > 0 {
		args = append(args, "--size="+strconv.Itoa(s.Request.Size))
	}
	if next != "" {
		args = append(args, "--next="+next)
	}
	return append([]string{"web"}, args...)
}

// sender returns a sender of requests to a service. nginx compresses its page for each of them.
func (s *service) sender() (*load.HTTP, error) {
	sender, err := load.NewHTTP(s.url)
	if err != nil {
		return nil, err
	}
	if s.Request.Hash > 0 {
		sender.Header = http.Header{"Accept-Encoding": {"gzip"}}
	}
	return sender, nil
}

// calibrateLoops measures how long an iteration of the loop takes with which Apache uses CPU time.
func (r *run) calibrateLoops(ctx context.Context) error {
	services, err := r.everyService()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(services, func(s experiment.Service) bool {
		_, real := r.real[s.Program]
		return real && s.Program == experiment.Httpd && s.Request.CPU.Duration > 0
	})
	if i < 0 {
		return nil
	}
	one, _, err := r.program(experiment.Service{Name: services[i].Name, Program: experiment.Httpd}, "", 0)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	one.name, one.group = services[i].Name, fmt.Sprintf("lab-%d-loops", os.Getpid())
	p, err := r.place.start(ctx, one, r.Progress)
	if err != nil {
		cancel()
		return err
	}
	defer func() { cancel(); <-p.done }()
	const loops, requests = 2_000_000, 10
	sender, err := load.NewHTTP("http://" + p.address + programs.CPUPath(loops))
	if err != nil {
		return err
	}
	defer sender.Close()
	before, err := cgroupstat.Read(r.machine.groups, p.group)
	if err != nil {
		return err
	}
	for range requests {
		if err := sender.Send(ctx); err != nil {
			return fmt.Errorf("measure the CPU time of a request: %w", err)
		}
	}
	after, err := cgroupstat.Read(r.machine.groups, p.group)
	if err != nil {
		return err
	}
	if r.loop = float64(after.Usage-before.Usage) / loops / requests; r.loop <= 0 {
		return errors.New("measure the CPU time of a request: it used none")
	}
	return nil
}

// path returns the path of a URL of Apache that uses the CPU time of a request, without its leading
// slash.
func (r *run) path(request experiment.Request) string {
	if request.CPU.Duration <= 0 {
		return ""
	}
	return strings.TrimPrefix(programs.CPUPath(int(float64(request.CPU.Duration)/r.loop)), "/")
}
