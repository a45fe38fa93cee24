// Command suite runs the tests of this repository and records the results.
//
//	suite pure           tests whose verdict depends on the commit alone ("make test")
//	suite pure smoke     and one test of each real component, one at a time: the gate
//	suite whole          everything that this machine can run, resumable ("make test-all")
//	suite flakes         pure 5 times and each smoke 20 times, resumable ("make flakes")
//
// What is run and repeated at once is a unit. A unit of the class pure is never repeated, because
// its verdict depends on the commit alone. Another unit that fails is repeated once: if it passes
// then, it is a flake, and if both failures are the machine's (their messages begin with
// "machine: "), it has neither passed nor failed.
//
// A unit that has passed does not run again before something changes that it depends on. The go
// command's test cache decides that: the environment variables that tests read, such as
// [need.MachineEnv], are part of it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

const usage = `suite runs the tests of this repository: suite [flags] CLASS...

pure     tests whose verdict depends on the commit alone
smoke    one test of each real component, one at a time
whole    everything that this machine can run
flakes   pure and smoke, many times, and their pass rates

Flags:
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.As(err, new(usageError)):
		fmt.Fprintln(os.Stderr, "suite:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "suite:", err)
		os.Exit(1)
	}
}

type usageError struct{ error }

// suite is one invocation.
type suite struct {
	runner runner
	only   string // part of the names of units to run
	times  int    // how often flakes runs a smoke
	out    io.Writer
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s := suite{runner: runner{dir: ".suite", out: stdout}, out: stdout}
	flags := flag.NewFlagSet("suite", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, usage); flags.PrintDefaults() }
	flags.StringVar(&s.only, "only", "", "run the units whose `name` contains this")
	flags.IntVar(&s.times, "times", 20, "how often flakes runs each smoke; pure runs a quarter as often")
	flags.StringVar(&s.runner.ldflags, "ldflags", "", "`flags` of the linker for tests")
	flags.BoolVar(&s.runner.fresh, "fresh", false, "whole: run again what has passed")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return usageError{err}
	}
	if _, err := os.Stat("go.mod"); err != nil {
		return usageError{fmt.Errorf("run it at the root of the repository: %w", err)}
	}
	switch classes := flags.Args(); {
	case len(classes) == 1 && classes[0] == "flakes":
		return s.flakes(ctx)
	case len(classes) == 1 && classes[0] == "whole":
		return s.whole(ctx)
	case len(classes) > 0 && !slices.ContainsFunc(classes, func(c string) bool { return c != "pure" && c != "smoke" }):
		return s.gate(ctx, classes)
	default:
		return usageError{fmt.Errorf("unknown classes %q: name pure and smoke, or whole or flakes alone", strings.Join(classes, " "))}
	}
}

// chosen returns the units whose names contain what was asked for.
func (s *suite) chosen(units []unit) []unit {
	return slices.DeleteFunc(units, func(u unit) bool { return !strings.Contains(u.name, s.only) })
}

// gate runs the deterministic class and the smokes.
func (s *suite) gate(ctx context.Context, classes []string) error {
	var units []unit
	for _, class := range classes {
		if class == "pure" {
			units = append(units, pure())
		} else {
			units = append(units, smokes()...)
		}
	}
	if err := s.compile(ctx); err != nil {
		return err
	}
	var results []result
	for _, u := range s.chosen(units) {
		s.runner.fresh = !u.pure // a component is started each time
		r, err := s.runner.judge(ctx, u)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	return s.close(results)
}

// compile compiles all tests, but does not link them, so that no compiler runs beside a test. What
// does not compile is a failure of its unit.
func (s *suite) compile(ctx context.Context) error {
	fmt.Fprintln(s.out, "== compiling the tests: the first time this takes minutes")
	_, err := lines(ctx, "go", "list", "-test", "-deps", "-export", "-f", "{{/* nothing */}}", "./...")
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		fmt.Fprintln(s.out, "some tests do not compile:", err)
	}
	return nil
}

// mostFlakes is the number of flakes with which the gate passes.
const mostFlakes = 1

// close prints what happened, with the number of tests last, and returns an error if the gate does
// not pass.
func (s *suite) close(results []result) error {
	var all result
	flakes := 0
	for _, r := range results {
		all.add(r.counts)
		switch r.Verdict {
		case passed:
			continue
		case flake:
			flakes++
		}
		fmt.Fprintf(s.out, "%s: %s: %s (%s)\n", r.Verdict, r.Unit, r.First, r.Disturbance)
	}
	failing := slices.ContainsFunc(results, func(r result) bool { return r.Verdict == failed || r.Verdict == machine })
	fmt.Fprintln(s.out, all.counts)
	switch {
	case failing:
		return errors.New("some tests failed")
	case flakes > mostFlakes:
		return fmt.Errorf("%d flakes: mend them, or take them out of the gate", flakes)
	case all.Passed == 0:
		return errors.New("no test ran")
	}
	return nil
}
