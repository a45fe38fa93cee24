package judge

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"pinfold.dev/pinfold/lab/host"
	"pinfold.dev/pinfold/lab/programs"
)

// service is a kind of program that answers requests.
type service struct {
	name  string
	needs []string // programs that must be installed
	// cost is about the CPU time of a request, and unit of the amount 1 before that is measured.
	cost, unit time.Duration
	path       func(amount int) string
	// prepare writes what the program needs to a directory, once for each start. Built-in programs
	// have no address before they are started.
	prepare func(found map[string]programs.Program, dir, address string) (command []string, err error)
	builtIn bool
	header  http.Header // of requests
	// warm is how long it serves requests one after the other before anything is measured. A JVM
	// compiles what is called often meanwhile.
	warm time.Duration
}

// apacheWorkers is Apache's default.
const apacheWorkers = 150

// sizes are those of requests, in multiples of the average amount. Each is as frequent as the
// others.
func sizes() []float64 { return []float64{.25, .5, 1, 2.25} }

// services returns all kinds of programs. workload returns the command line of a built-in one.
func services(workload func(...string) []string) []service {
	const ms, us = time.Millisecond, time.Microsecond
	return []service{
		{name: "python", warm: warmFor, needs: []string{"python3"}, cost: 12 * ms, unit: 60 * us, path: programs.OrdersPath,
			prepare: func(found map[string]programs.Program, dir, address string) ([]string, error) {
				args, err := found["python3"].Python(dir, address)
				return found["python3"].Command(args...), err
			}},
		{name: "go", warm: warmFor, cost: 12 * ms, unit: us, builtIn: true,
			path: func(n int) string { return fmt.Sprintf("/?hash=%d", 1000*n) },
			prepare: func(map[string]programs.Program, string, string) ([]string, error) {
				return workload("web", "--listen=127.0.0.1:0"), nil
			}},
		{name: "jvm", warm: jvmWarm, needs: []string{"java", "javac"}, cost: 12 * ms, unit: 10 * us, path: programs.OrdersPath,
			prepare: func(found map[string]programs.Program, dir, address string) ([]string, error) {
				args, err := found["java"].Java(found["javac"], dir, address)
				return found["java"].Command(args...), err
			}},
		{name: "httpd", warm: warmFor, needs: []string{"apache2"}, cost: 12 * ms, unit: 10 * us,
			path: func(n int) string { return programs.CPUPath(1000 * n) },
			prepare: func(found map[string]programs.Program, dir, address string) ([]string, error) {
				args, err := found["apache2"].Apache(programs.Site{Dir: dir, Address: address, Workers: apacheWorkers})
				return found["apache2"].Command(args...), err
			}},
		{name: "build", warm: warmFor, needs: []string{"make", "cc"}, cost: 200 * ms, unit: 100 * ms, builtIn: true, path: programs.OrdersPath,
			prepare: func(_ map[string]programs.Program, dir, _ string) ([]string, error) {
				return workload("builds", "--listen=127.0.0.1:0", "--project="+dir), programs.Project(dir)
			}},
	}
}

// find finds the programs that a service needs. missing is why it is left out.
func (s service) find() (found map[string]programs.Program, version, missing string, err error) {
	found = map[string]programs.Program{}
	for _, name := range s.needs {
		p, err := programs.Find(name)
		switch {
		case errors.Is(err, exec.ErrNotFound):
			return nil, "", err.Error(), nil
		case err != nil:
			return nil, "", "", err
		case version == "":
			version = p.Version
		}
		found[name] = p
	}
	return found, version, "", nil
}

// program returns the program to start, in a directory of its own below dir.
func (s service) program(found map[string]programs.Program, dir, name string) (p host.Program, err error) {
	p = host.Program{Name: name, Title: s.name, BuiltIn: s.builtIn}
	if !s.builtIn {
		if p.Address, err = host.FreeAddress(); err != nil {
			return p, err
		}
	}
	dir = filepath.Join(dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return p, err
	}
	p.Command, err = s.prepare(found, dir, p.Address)
	return p, err
}
