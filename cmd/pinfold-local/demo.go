package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/internal/frame"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/lab/demo"
	"pinfold.dev/pinfold/lab/localcluster"
	"pinfold.dev/pinfold/lab/localnode"
	"pinfold.dev/pinfold/lab/simnode"
	"pinfold.dev/pinfold/report/terminal"
)

func newDemo() *cobra.Command {
	var options demoOptions
	command := &cobra.Command{
		Use:   "demo [flags]",
		Short: "Place the example pods on a cluster of three nodes and draw where they went",
		Long: `Start a cluster of three simulated nodes: a machine of 104 CPUs, one of 256, and
this machine. Create the pod cal-pi and the Deployments go-demo and nginx, with
policy static and with policy static-burst, draw a map of each node with the
pods on their CPUs, rate each placement, and remove everything.

With --node, this machine is a real node instead of a simulated one. The same
pods then run on it as well, reduced to its size, and the maps show where the
kernel runs their threads.

With --fleet, this machine is the only node. A dozen other pods run there for a
few minutes, a Prometheus reads their metrics, and "pinfold advise" gives advice
on their limits and requests, also as a page.`,
		Example: `  pinfold-local demo
  pinfold-local demo --node
  pinfold-local demo --fleet`,
		Args: frame.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			flags := command.Flags()
			if options.fleet {
				if flags.Changed("node") && !options.node {
					return frame.Usagef("--fleet needs a real node: leave out --node=false")
				}
				if err := flags.Set("node", "true"); err != nil {
					return err
				}
			}
			if err := cmp.Or(options.checkNode(flags), frame.Needs(flags, "fleet", "duration")); err != nil {
				return err
			}
			return runDemo(command.Context(), options, command.OutOrStdout(), command.ErrOrStderr())
		},
	}
	addNodeFlags(command, &options.upOptions)
	flags := command.Flags()
	flags.BoolVar(&options.fleet, "fleet", false, "show advice on the workloads of a cluster, with this machine as its node; needs root")
	options.duration = 4 * time.Minute
	frame.Var(flags, &options.duration, "duration", "TIME", "with --fleet, run the pods for `TIME`, and until the next full minute", parseDuration)
	return command
}

// demoOptions are the flags of demo.
type demoOptions struct {
	upOptions
	fleet    bool
	duration time.Duration
}

func runDemo(ctx context.Context, options demoOptions, stdout, stderr io.Writer) (err error) {
	host, err := hostMachine()
	if err != nil {
		return err
	}
	simulated := demoNodes()
	nodes := slices.Clone(simulated)
	if options.fleet {
		if err := checkFleet(host); err != nil {
			return err
		}
		simulated, options.featureGates = nil, fleetGates
	} else if options.node {
		nodes = append(nodes, simnode.Node{Name: localnode.Name, Machine: host})
	} else {
		simulated = append(simulated, simnode.Nodes([]simnode.Group{{Name: hostShape, Machine: host, Count: 1}})...)
		nodes = simulated
	}
	// The directory is always removed: an error contains the relevant part of the log.
	dir, err := os.MkdirTemp("", "pinfold-demo-")
	if err != nil {
		return fmt.Errorf("create a directory: %w", err)
	}
	defer func() {
		_, removeErr := localcluster.Remove(dir, slog.New(slog.NewTextHandler(stderr, nil)))
		_ = os.Remove(dir) // it still exists if nothing was started
		err = errors.Join(err, removeErr)
	}()

	progress := frame.NewProgress(stderr)
	options.dir = dir
	config, err := options.clusterConfig(stderr, simulated)
	if err != nil {
		return err
	}
	config.Progress = progress.Step
	cluster, err := localcluster.Start(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case err := <-cluster.Failed():
			cancel(err)
		case <-ctx.Done():
		}
	}()
	output := demoOutput(stdout, progress)
	if options.fleet {
		err = runFleet(ctx, cluster, options.duration, output, progress)
	} else {
		err = demo.Run(ctx, cluster.RESTConfig(), nodes, output)
	}
	if err == nil && options.node && !options.fleet {
		err = demo.RunReal(ctx, cluster.RESTConfig(), demo.Real{Name: localnode.Name, Machine: host, MinShared: api.DefaultMinSharedCPUs}, output)
	}
	if err != nil {
		if ctx.Err() != nil { // its cause explains more than the step that it interrupted
			return context.Cause(ctx)
		}
		return err
	}
	if !options.node {
		fmt.Fprintln(stdout, "The same with real containers on this machine's CPUs, as the kernel sees them: sudo make demo-node")
	}
	progress.Step("removing the cluster")
	return nil
}

// demoOutput returns an output with maps that fit the terminal.
func demoOutput(stdout io.Writer, progress *frame.Progress) demo.Output {
	return demo.Output{Writer: stdout, Map: terminal.MapOptions(stdout, os.Getenv), Progress: progress.Step}
}

// demoNodes returns one node of each machine on which the examples were tested.
func demoNodes() []simnode.Node {
	return simnode.Nodes([]simnode.Group{
		{Name: "intel-104", Machine: topology.Intel104().MustBuild(), Count: 1, Labels: demo.SelectedLabels},
		{Name: "amd-256", Machine: topology.AMD256().MustBuild(), Count: 1},
	})
}
