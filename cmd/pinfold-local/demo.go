package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/local/demo"
	"pinfold.dev/pinfold/local/localcluster"
	"pinfold.dev/pinfold/local/localnode"
	"pinfold.dev/pinfold/local/simnode"
	"pinfold.dev/pinfold/report/terminal"
)

func newDemo() *cobra.Command {
	var options upOptions
	command := &cobra.Command{
		Use:   "demo [flags]",
		Short: "Place the example pods on a cluster of three nodes and draw where they went",
		Long: `Start a cluster of three simulated nodes: a machine of 104 CPUs, one of 256, and
this machine. Create the pod cal-pi and the Deployments go-demo and nginx, with
policy static and with policy static-burst, draw a map of each node with the
pods on their CPUs, rate each placement, and remove everything.

With --node, this machine is a real node instead of a simulated one. The same
pods then run on it as well, reduced to its size, and the maps show where the
kernel runs their threads.`,
		Example: `  pinfold-local demo
  pinfold-local demo --node`,
		Args: frame.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := options.checkNode(command.Flags()); err != nil {
				return err
			}
			return runDemo(command.Context(), options, command.OutOrStdout(), command.ErrOrStderr())
		},
	}
	addNodeFlags(command, &options)
	return command
}

func runDemo(ctx context.Context, options upOptions, stdout, stderr io.Writer) error {
	host, err := hostMachine()
	if err != nil {
		return err
	}
	simulated := demoNodes()
	nodes := slices.Clone(simulated)
	if options.node {
		nodes = append(nodes, simnode.Node{Name: localnode.Name, Machine: host})
	} else {
		simulated = append(simulated, simnode.Nodes([]simnode.Group{{Name: hostShape, Machine: host, Count: 1}})...)
		nodes = simulated
	}
	progress := frame.NewProgress(stderr)
	return options.onCluster(ctx, simulated, progress, stderr, func(ctx context.Context, cluster *localcluster.Cluster) error {
		output := demoOutput(stdout, progress)
		err := demo.Run(ctx, cluster.RESTConfig(), nodes, output)
		if err == nil && options.node {
			err = demo.RunReal(ctx, cluster.RESTConfig(), demo.Real{Name: localnode.Name, Machine: host, MinShared: api.DefaultMinSharedCPUs}, output)
		}
		if err == nil && !options.node {
			fmt.Fprintln(stdout, "The same with real containers on this machine's CPUs, as the kernel sees them: sudo make demo-node")
		}
		return err
	})
}

// onCluster runs a demo on a cluster with simulated nodes, and removes the cluster.
func (options upOptions) onCluster(ctx context.Context, nodes []simnode.Node, progress *frame.Progress, stderr io.Writer,
	run func(context.Context, *localcluster.Cluster) error) (err error) {
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

	options.dir = dir
	config, err := options.clusterConfig(stderr, nodes)
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
	if err := run(ctx, cluster); err != nil {
		if ctx.Err() != nil { // its cause explains more than the step that it interrupted
			return context.Cause(ctx)
		}
		return err
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
