package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/lab/demo"
	"pinfold.dev/pinfold/lab/localcluster"
	"pinfold.dev/pinfold/lab/simnode"
	"pinfold.dev/pinfold/report/terminal"
)

func newDemo() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Place the example pods on a cluster of three nodes and draw where they went",
		Long: `demo starts a cluster of three simulated nodes: a machine of 104 CPUs, one of
256, and this machine. It creates the pod cal-pi and the Deployments go-demo and
nginx, with policy static and with policy static-burst, draws each node's map
with the pods on their CPUs, says how good each placement is, and removes
everything.`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			return runDemo(command.Context(), command.OutOrStdout(), command.ErrOrStderr())
		},
	}
}

func runDemo(ctx context.Context, stdout, stderr io.Writer) (err error) {
	nodes, err := demoNodes()
	if err != nil {
		return err
	}
	// Removed whatever happens: of a failure, the error contains the part of the
	// log that matters.
	dir, err := os.MkdirTemp("", "pinfold-demo-")
	if err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	progress := newProgress(stderr)
	config, err := upOptions{dir: dir}.clusterConfig(stderr, nodes)
	if err != nil {
		return err
	}
	config.Progress = progress.step
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
	if err := demo.Run(ctx, cluster.RESTConfig(), nodes, demoOutput(stdout, progress)); err != nil {
		if ctx.Err() != nil { // what ended it explains more than what it interrupted
			return context.Cause(ctx)
		}
		return err
	}
	progress.step("removing the cluster")
	return nil
}

// demoOutput fits the demo's maps to where they go.
func demoOutput(stdout io.Writer, progress *progress) demo.Output {
	return demo.Output{Writer: stdout, Map: terminal.MapOptions(stdout, os.Getenv), Progress: progress.step}
}

// demoNodes are one node of each machine that the examples were tested on, and
// one like this machine.
func demoNodes() ([]simnode.Node, error) {
	host, err := hostMachine()
	if err != nil {
		return nil, err
	}
	groups := []simnode.Group{
		{Name: "intel-104", Machine: topology.Intel104().MustBuild(), Count: 1, Labels: demo.SelectedLabels},
		{Name: "amd-256", Machine: topology.AMD256().MustBuild(), Count: 1},
		{Name: hostShape, Machine: host, Count: 1},
	}
	return simnode.Nodes(groups), nil
}
