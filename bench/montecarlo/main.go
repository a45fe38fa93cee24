package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"reflect"
	"runtime"
	"slices"

	"pinfold.dev/pinfold/bench/internal/command"
	"pinfold.dev/pinfold/core/interference"
)

func main() { os.Exit(command.Main("montecarlo", run)) }

// options are the command line.
type options struct {
	rounds  int
	periods int64
	python  string
	output  string
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("montecarlo", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.rounds, "rounds", 10, "number of measurements of each program, in turn")
	flags.Int64Var(&o.periods, "periods", 4_000_000, "periods per simulation, at least 64000")
	flags.StringVar(&o.python, "python", "", "a Python with numpy (default: that of bin/python, or python3)")
	flags.StringVar(&o.output, "o", "text", "output: text, markdown or benchstat")
	if err := command.Parse(flags, args); err != nil {
		return o, err
	}
	switch {
	case o.rounds < 1:
		return o, fmt.Errorf("%w: -rounds must be at least 1, not %d", command.ErrUsage, o.rounds)
	case o.periods < 64_000 || o.periods > 1e12:
		return o, fmt.Errorf("%w: -periods must be 64000 to 1e12, not %d", command.ErrUsage, o.periods)
	case o.output != "text" && o.output != "markdown" && o.output != "benchstat":
		return o, fmt.Errorf("%w: -o must be text, markdown or benchstat, not %q", command.ErrUsage, o.output)
	}
	return o, nil
}

// run executes one command line.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "pinfold-montecarlo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	contenders, leftOut := findContenders(ctx, o.python, dir)
	for _, why := range leftOut {
		fmt.Fprintln(stderr, "left out:", why)
	}
	all, err := measure(ctx, contenders, o, command.Progress(stderr))
	if err != nil {
		return err
	}
	if o.output == "benchstat" {
		return printBenchstat(stdout, all)
	}
	return printTables(stdout, o.output, runtime.NumCPU(), all, leftOut)
}

// tooFar is the largest accepted difference of two answers in standard errors.
const tooFar = 5

// loads returns the mean demands to measure.
func loads() []float64 { return []float64{.5, .7, .9} }

// outcome is the result of one contender at one load in all rounds.
type outcome struct {
	load    float64
	name    string
	same    bool     // must be identical to the first contender's
	answers []answer // by round
	off     float64  // the largest difference from the first contender, in standard errors
}

// measure runs all contenders at all loads in each round, and checks that they agree.
func measure(ctx context.Context, contenders []contender, o options, progress func(string)) ([]outcome, error) {
	var all []outcome
	for _, load := range loads() {
		for _, c := range contenders {
			all = append(all, outcome{load: load, name: c.name, same: c.same})
		}
	}
	for round := range o.rounds {
		for i := range all {
			c, out := contenders[i%len(contenders)], &all[i]
			progress(fmt.Sprintf("round %d: u = %v, %s", round+1, out.load, c.name))
			a, err := c.ask(ctx, question{out.load, o.periods, uint64(round + 1)})
			if err != nil {
				return nil, fmt.Errorf("u = %v, %s: %w", out.load, c.name, err)
			}
			out.answers = append(out.answers, a)
			first := all[i-i%len(contenders)]
			if err := out.agree(first, round); err != nil {
				return nil, fmt.Errorf("u = %v: %w", out.load, err)
			}
		}
	}
	return all, nil
}

// agree compares the answer of a round with that of the first contender.
func (o *outcome) agree(first outcome, round int) error {
	a, b := o.answers[round], first.answers[round]
	if a.Periods < 1 || !(a.WallSeconds > 0) || !(a.CPUSeconds > 0) {
		return fmt.Errorf("%s simulated %d periods in %v s, %v s of CPU time", o.name, a.Periods, a.WallSeconds, a.CPUSeconds)
	}
	if o.same {
		a.WallSeconds, a.CPUSeconds = b.WallSeconds, b.CPUSeconds
		if !reflect.DeepEqual(a, b) {
			return fmt.Errorf("%s finds %+v and %s finds %+v: they should be the same", first.name, b, o.name, a)
		}
		return nil
	}
	theirs, ours := a.figures(), b.figures()
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		x, y := theirs[name], ours[name]
		z := math.Abs(x.Value-y.Value) / math.Hypot(x.StandardError, y.StandardError)
		if x.Value == y.Value {
			z = 0
		}
		if !(z <= tooFar) {
			return fmt.Errorf("%s: %s finds %v and %s finds %v, which differ by %.3g standard errors: one of them computes something else", name, first.name, y, o.name, x, z)
		}
		o.off = max(o.off, z)
	}
	return nil
}

// figures returns the statistics that must agree, by name.
func (a answer) figures() map[string]interference.Estimate {
	return map[string]interference.Estimate{"E[WCET]": a.ExpectedWCET, "P(WCET = 1)": a.ProbabilityWCET1, "throttle ratio": a.ThrottleRatio,
		"backlog": a.Backlog, "burst used": a.BurstUse, "demand": a.Demand}
}
