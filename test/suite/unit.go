package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// A unit is what is run, recorded and repeated at once.
type unit struct {
	name string
	pure bool     // never repeated
	test []string // arguments of "go test"
	dir  string   // of the module, if it is not this one
	make string   // instead: a target of make
	env  []string
}

// pure returns the deterministic class. Its random tests have the same seed each time.
func pure() unit {
	return unit{name: "pure", pure: true, env: []string{"RAPID_SEED=1"}, test: []string{"-short", "-vet=off", "-timeout=10m", "./..."}}
}

// smokes returns a unit for each real component: it starts and does the main thing. They wait for
// states only.
func smokes() []unit {
	smoke := func(name, pkg, tests string) unit {
		return unit{name: "smoke/" + name, test: []string{"-vet=off", "-timeout=8m", "-run=" + tests, pkg}}
	}
	return []unit{
		smoke("kernel", "./linux/cgroup", "^TestHost$"),
		smoke("bpf", "./linux/schedtrace", "^(TestCapabilities|TestUnprivileged|TestKilled)$"),
		smoke("queues", "./linux/runqueue", "^TestTurns$"),
		smoke("cluster", "./test/cluster", "^TestSmoke$"),
		smoke("chart", "./test/chart", "^TestServerAcceptsObjects$"),
		smoke("node", "./test/node", "^TestSmoke$"),
		smoke("release", "./test/node", "^TestRelease$"),
		smoke("guest", "./test/vm", "^TestSmoke$"),
		smoke("node-v2", "./test/vm", "^TestNodeSmoke$"), // cgroup version 2 and systemd
		smoke("page", "./cmd/pinfold", "^TestPagesFit$"),
		smoke("prometheus", "./test/verdict", "^TestServer$"),
	}
}

// split are packages whose tests are units of their own, because each takes minutes.
var split = []string{"test/node", "test/vm"}

// everything returns the units of the whole suite: the gate's, and for each package with tests that
// need more than the commit, and each module inside this one, one that runs all of its tests, alone.
func everything(ctx context.Context) ([]unit, error) {
	units := append([]unit{pure()}, smokes()...)
	packages, err := needy(ctx)
	if err != nil {
		return nil, err
	}
	for _, pkg := range packages {
		name, tests := strings.TrimPrefix(pkg, "./"), []string{"."}
		for _, s := range split {
			if name == s {
				if tests, err = functions(ctx, pkg); err != nil {
					return nil, err
				}
			}
		}
		for _, test := range tests {
			u := unit{name: name, test: []string{"-vet=off", "-timeout=40m", "-run=" + test, pkg}}
			if test != "." {
				u.name += "/" + test
				u.test[2] = "-run=^" + test + "$"
			}
			units = append(units, u)
		}
	}
	racing, err := lines(ctx, "make", "--no-print-directory", "race-packages")
	if err != nil {
		return nil, err
	}
	race := func(name, dir string, packages ...string) unit {
		return unit{name: name, dir: dir, pure: true, env: []string{"CGO_ENABLED=1", "GOGC=800", "RAPID_SEED=1"},
			test: append([]string{"-short", "-race", "-vet=off", "-timeout=20m", "-exec=env -u GOGC"}, packages...)}
	}
	units = append(units, race("race", "", racing...), race("race/lab", "lab", "./..."))
	for _, dir := range []string{"bench", "lab", "test/autoscalers", "tools/monitoring"} {
		units = append(units, unit{name: "module/" + dir, dir: dir, test: []string{"-vet=off", "-p=1", "-timeout=40m", "./..."}})
	}
	for _, target := range []string{"lint", "lint-more", "bench-once", "reproducible"} {
		units = append(units, unit{name: "make/" + target, make: target})
	}
	return units, nil
}

// needy returns the packages whose tests need more than the commit: those that import test/need,
// themselves or by another package.
func needy(ctx context.Context) ([]string, error) {
	const format = `{{.ImportPath}} {{join .Deps " "}}`
	all, err := lines(ctx, "go", "list", "-test", "-f", format, "./...")
	if err != nil {
		return nil, err
	}
	var packages []string
	for _, line := range all {
		name, deps, _ := strings.Cut(line, " ")
		if pkg, isTest := strings.CutSuffix(name, ".test"); isTest && strings.Contains(deps+" ", module+"/test/need ") {
			packages = append(packages, "."+strings.TrimPrefix(pkg, module))
		}
	}
	return packages, nil
}

const module = "pinfold.dev/pinfold"

// functions returns the names of a package's tests.
func functions(ctx context.Context, pkg string) ([]string, error) {
	all, err := lines(ctx, "go", "test", "-vet=off", "-list=^Test", pkg)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, line := range all {
		if strings.HasPrefix(line, "Test") {
			names = append(names, line)
		}
	}
	return names, nil
}

// lines returns the lines that a command prints.
func lines(ctx context.Context, name string, args ...string) ([]string, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' }), nil
}
