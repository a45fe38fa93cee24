package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"

	"pinfold.dev/pinfold/bench/internal/command"
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
	flags.IntVar(&o.rounds, "rounds", 10, "how often each is measured, in turn")
	flags.Int64Var(&o.periods, "periods", 4_000_000, "periods to simulate each time, at least 64000")
	flags.StringVar(&o.python, "python", "", "a Python with numpy; without it that of bin/python, or python3")
	flags.StringVar(&o.output, "o", "text", "output: text, markdown, or benchstat for lines that it reads")
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
