package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	var usage usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "scheduler: %v; see -help\n", err)
		os.Exit(2)
	default:
		fmt.Fprintf(os.Stderr, "scheduler: %v\n", err)
		os.Exit(1)
	}
}

// usageError is a mistake on the command line.
type usageError struct{ error }

// options are the flags.
type options struct {
	executable string
	nodes      []int
	pods       int
	count      int
	kubelets   bool
	profiles   string
	keep       string
	scale      bool
	rate       int
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	var nodes string
	flags := flag.NewFlagSet("scheduler", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.executable, "executable", "bin/pinfold-local", "`file` that contains the components, as made by make build")
	flags.StringVar(&nodes, "nodes", "500,1000", "measure on clusters of so many `nodes`")
	flags.IntVar(&o.pods, "pods", 2000, "bind so many pods")
	flags.IntVar(&o.count, "count", 10, "measure so many times, with and without the plugin")
	flags.BoolVar(&o.kubelets, "kubelets", false, "keep KWOK up, which reports that pods run")
	flags.StringVar(&o.profiles, "profiles", "", "write CPU profiles of the scheduler to this `directory`; that costs a little speed")
	flags.StringVar(&o.keep, "keep", "", "leave the clusters' data and logs in this `directory`")
	flags.BoolVar(&o.scale, "scale", false, "measure what grows with the cluster instead: memory, latency, fail-over; see the package comment")
	flags.IntVar(&o.rate, "rate", 50, "with -scale: pods created per `second` while latencies are measured")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, usageError{err}
	}
	if flags.NArg() > 0 {
		return o, usageError{fmt.Errorf("unexpected %q", flags.Arg(0))}
	}
	for text := range strings.SplitSeq(nodes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return o, usageError{fmt.Errorf("-nodes: %q is not a number from 1", text)}
		}
		o.nodes = append(o.nodes, n)
	}
	if o.pods < 10 || o.count < 1 {
		return o, usageError{fmt.Errorf("-pods must be 10 or more, and -count 1 or more")}
	}
	if o.rate < 1 || o.rate > 1000 {
		return o, usageError{fmt.Errorf("-rate is %d, it must be 1 to 1000 pods a second", o.rate)}
	}
	return o, nil
}

// run measures on clusters of every size. Results go to stdout, everything else to
// stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	printHeader(stdout)
	for _, nodes := range o.nodes {
		if o.scale {
			if err := scaleAll(ctx, o, nodes, stdout, stderr); err != nil {
				return fmt.Errorf("%d nodes: %w", nodes, err)
			}
			continue
		}
		results, err := measureAll(ctx, o, nodes, stdout, stderr)
		if err != nil {
			return fmt.Errorf("%d nodes: %w", nodes, err)
		}
		fmt.Fprintf(stderr, "nodes=%d: %s\n", nodes, compare(results))
	}
	return nil
}

// measureAll takes all measurements on one cluster.
func measureAll(ctx context.Context, o options, nodes int, stdout, stderr io.Writer) (results map[string][]figures, err error) {
	fmt.Fprintf(stderr, "nodes=%d: starting the cluster\n", nodes)
	r, err := startRig(ctx, o, nodes, stderr)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	results = map[string][]figures{}
	for i := range o.count {
		for _, v := range inTurn(i) {
			f, err := r.measure(ctx, v)
			if err != nil {
				return nil, fmt.Errorf("plugin=%s, measurement %d: %w", v.name, i+1, err)
			}
			results[v.name] = append(results[v.name], f)
			printFigures(stdout, nodes, v, f)
		}
	}
	return results, nil
}
