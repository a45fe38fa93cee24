package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/internal/command"
	"pinfold.dev/pinfold/internal/sleep"
)

func main() { os.Exit(command.Main("fleet", run)) }

// options are the flags.
type options struct {
	executable     string
	nodes          int
	settle, window time.Duration
}

func parseOptions(args []string, stderr io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.executable, "executable", "bin/pinfold-local", "`file` that contains the components, as built by make build")
	flags.IntVar(&o.nodes, "nodes", 5000, "number of `nodes`, each with an agent")
	flags.DurationVar(&o.settle, "settle", 3*time.Minute, "`time` between the start of the last agent and the steady state")
	flags.DurationVar(&o.window, "window", 3*time.Minute, "`time` for which the steady state is measured")
	if err := command.Parse(flags, args); err != nil {
		return o, err
	}
	if o.nodes < 1 || o.settle < 0 || o.window < time.Second {
		return o, fmt.Errorf("%w: -nodes must be 1 or more, -settle not negative, and -window 1s or more", command.ErrUsage)
	}
	return o, nil
}

// run measures one fleet. Results go to stdout, everything else to stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	if err := raiseFileLimit(o.nodes); err != nil {
		return err
	}
	progress := command.Progress(stderr)
	progress("starting the control plane")
	c, err := startCluster(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	f, err := newFleet(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	measure := func(phase string, each float64, unit string, do func() error) error {
		progress(phase)
		before, err := c.used(f)
		if err != nil {
			return err
		}
		begun := time.Now()
		if err := do(); err != nil {
			return err
		}
		after, err := c.used(f)
		if err != nil {
			return err
		}
		if each == 0 {
			each = time.Since(begun).Seconds()
		}
		u := after.since(before)
		fmt.Fprintf(stdout, "BenchmarkFleet/nodes=%d/phase=%s\t1\t%.2f requests/%s\t%.0f sent-B/%s\t%.0f got-B/%s\t%.2f apiserver-cpu-ms/%s\t%.2f etcd-cpu-ms/%s\t%d apiserver-MiB\n",
			o.nodes, phase, float64(u.total())/each, unit, float64(u.sent)/each, unit, float64(u.got)/each, unit,
			u.apiServer.Seconds()*1000/each, unit, u.etcd.Seconds()*1000/each, unit, u.memory>>20)
		u.print(stderr, phase, each, unit)
		return nil
	}
	if err := measure("start", float64(o.nodes), "node", func() error { return f.start(ctx) }); err != nil {
		return err
	}
	progress("settling")
	if !sleep.For(ctx, o.settle) {
		return context.Cause(ctx)
	}
	return measure("steady", 0, "s", func() error {
		if !sleep.For(ctx, o.window) {
			return context.Cause(ctx)
		}
		return nil
	})
}

// raiseFileLimit lets this process and the API server have a connection for each agent, and the
// agents some files.
func raiseFileLimit(agents int) error {
	wanted := uint64(1000 + 3*agents)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	if limit.Cur >= wanted {
		return nil
	}
	limit.Cur, limit.Max = wanted, max(limit.Max, wanted)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("raise the limit of open files to %d (ulimit -n): %w", limit.Cur, err)
	}
	return nil
}
