package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"time"

	"golang.org/x/term"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	status := 0
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "montecarlo:", err)
		status = 2
	case err != nil:
		fmt.Fprintln(os.Stderr, "montecarlo:", err)
		status = 1
	}
	os.Exit(status)
}

// errUsage is wrapped by errors in the question.
var errUsage = errors.New("wrong usage, see -help")

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
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return o, err
	case err != nil:
		return o, fmt.Errorf("%w: %w", errUsage, err)
	case flags.NArg() > 0:
		return o, fmt.Errorf("%w: %q is not a flag", errUsage, flags.Arg(0))
	case o.rounds < 1:
		return o, fmt.Errorf("%w: -rounds must be at least 1, not %d", errUsage, o.rounds)
	case o.periods < 64_000 || o.periods > 1e12:
		return o, fmt.Errorf("%w: -periods must be 64000 to 1e12, not %d", errUsage, o.periods)
	case o.output != "text" && o.output != "markdown" && o.output != "benchstat":
		return o, fmt.Errorf("%w: -o must be text, markdown or benchstat, not %q", errUsage, o.output)
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
	begin := time.Now()
	all, err := measure(ctx, contenders, o, func(what string) {
		if f, ok := stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			fmt.Fprintf(stderr, "%5.0fs  %s\n", time.Since(begin).Seconds(), what)
		}
	})
	if err != nil {
		return err
	}
	if o.output == "benchstat" {
		return printBenchstat(stdout, all)
	}
	return printTables(stdout, o.output, runtime.NumCPU(), all, leftOut)
}
