package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"pinfold.dev/pinfold/bench/internal/command"
	"pinfold.dev/pinfold/kube/scheduler"
)

func main() { os.Exit(command.Main("scheduler", run)) }

// options are the flags.
type options struct {
	executable string
	nodes      []int
	pods       int
	count      int
	kubelets   bool
	scale      bool
	rate       int
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	var o options
	var nodes string
	flags := flag.NewFlagSet("scheduler", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.executable, "executable", "../bin/pinfold-local", "`file` that contains the components, as built by make build")
	flags.StringVar(&nodes, "nodes", "500,1000", "sizes of the clusters, in `nodes`")
	flags.IntVar(&o.pods, "pods", 2000, "number of pods to bind")
	flags.IntVar(&o.count, "count", 10, "number of measurements with and without the plugin")
	flags.BoolVar(&o.kubelets, "kubelets", false, "keep KWOK running, which reports that pods run")
	flags.BoolVar(&o.scale, "scale", false, "measure memory, latency and fail-over instead of throughput; see the package comment")
	flags.IntVar(&o.rate, "rate", 50, "with -scale: pods created per `second` while latencies are measured")
	if err := command.Parse(flags, args); err != nil {
		return o, err
	}
	for text := range strings.SplitSeq(nodes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return o, fmt.Errorf("%w: -nodes: %q is not a number from 1", command.ErrUsage, text)
		}
		o.nodes = append(o.nodes, n)
	}
	if o.pods < 10 || o.count < 1 {
		return o, fmt.Errorf("%w: -pods must be 10 or more, and -count 1 or more", command.ErrUsage)
	}
	if o.rate < 1 || o.rate > 1000 {
		return o, fmt.Errorf("%w: -rate is %d, it must be 1 to 1000 pods a second", command.ErrUsage, o.rate)
	}
	return o, nil
}

// run measures clusters of every size. Results go to stdout, everything else to stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	printHeader(stdout)
	measure := measureThroughput
	if o.scale {
		measure = measureScale
	}
	for _, nodes := range o.nodes {
		fmt.Fprintf(stderr, "nodes=%d: starting the cluster\n", nodes)
		if err := measure(ctx, o, nodes, stdout, stderr); err != nil {
			return fmt.Errorf("%d nodes: %w", nodes, err)
		}
	}
	return nil
}

// inTurns calls measure for every variant in every round. Each variant is the first in every other
// round.
func inTurns(rounds int, measure func(variant) error) error {
	variants := []variant{
		{name: withPlugin, config: alone(scheduler.DefaultConfiguration), annotated: true},
		{name: withoutPlugin, config: alone(stockConfiguration)},
	}
	for round := range rounds {
		for _, v := range variants {
			if err := measure(v); err != nil {
				return fmt.Errorf("plugin=%s, measurement %d: %w", v.name, round+1, err)
			}
		}
		slices.Reverse(variants)
	}
	return nil
}

// variant is one of the two schedulers that are compared.
type variant struct {
	name string
	// config is its KubeSchedulerConfiguration. The local cluster sets the request limits, which
	// are equal for both variants.
	config    string
	annotated bool // the pods ask for CPUs
}

const (
	withPlugin    = "pinfold"
	withoutPlugin = "none"
)

// stockConfiguration is the default configuration of kube-scheduler.
const stockConfiguration = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: true
`

// alone disables leader election in a configuration, because it would be part of the measurement.
func alone(config string) string {
	return strings.Replace(config, "leaderElect: true", "leaderElect: false", 1)
}

// maxAttempts is how often a measurement that was disturbed by other load is tried.
const maxAttempts = 3

// retry repeats a measurement while the API server drops the watch.
func retry[T any](r *rig, v variant, attempt func() (T, error)) (T, error) {
	for n := 1; ; n++ {
		result, err := attempt()
		if !errors.Is(err, errWatchEnded) || n == maxAttempts {
			return result, err
		}
		fmt.Fprintf(r.stderr, "nodes=%d: plugin=%s: %v; measuring again\n", r.nodes, v.name, err)
	}
}
