package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/local/demo"
	"pinfold.dev/pinfold/local/localcluster"
)

func newDemoFleet() *cobra.Command {
	// The kubelet then asks containerd for what it counts, which it otherwise does by itself, with the socket of
	// another containerd.
	options := upOptions{node: true, featureGates: map[string]bool{"PodAndContainerStatsFromCRI": true}}
	var length time.Duration
	var page string
	var replace bool
	command := &cobra.Command{
		Use:   "demo-fleet [flags]",
		Short: "Give verdicts on the CPU limits of a dozen services, from a Prometheus",
		Long: `Make this machine a real node, start a dozen services with CPU limits there and
a Prometheus server, and send requests for some minutes. Then say what to do
about each limit, with a page, and who waited for CPUs behind whom, and remove
everything but the page. It needs root, and the programs that "make demo-fleet"
builds.`,
		Example: `  pinfold-local demo-fleet
  pinfold-local demo-fleet --duration 10m --html verdicts.html`,
		Args: frame.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			const least = 2 * time.Minute
			if length < least {
				return frame.Usagef("--duration %v: it must be %v or more, because counters are read twice a minute", length, least)
			}
			if _, err := os.Stat(page); !replace && !errors.Is(err, fs.ErrNotExist) {
				return frame.SuggestForce(fmt.Errorf("%s: %w", page, fs.ErrExist))
			}
			executable, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find the programs: %w", err)
			}
			dir, err := os.MkdirTemp("", "pinfold-prometheus-")
			if err != nil {
				return fmt.Errorf("create a directory: %w", err)
			}
			defer os.RemoveAll(dir)
			beside := func(name string) string { return filepath.Join(filepath.Dir(executable), name) }
			fleet := demo.Fleet{Prometheus: beside("prometheus-server"), Pinfold: beside("pinfold"), Dir: dir, Time: length, Page: page}
			for _, program := range []string{fleet.Prometheus, fleet.Pinfold, beside("pinfold-agent")} {
				if _, err := os.Stat(program); err != nil {
					return fmt.Errorf("%w: make demo-fleet builds it", err)
				}
			}
			stderr := command.ErrOrStderr()
			progress := frame.NewProgress(stderr)
			return options.onCluster(command.Context(), nil, progress, stderr, func(ctx context.Context, cluster *localcluster.Cluster) error {
				fleet.Metrics = cluster.AgentMetrics()
				return demo.RunFleet(ctx, cluster.RESTConfig(), fleet, demoOutput(command.OutOrStdout(), progress))
			})
		},
	}
	addProgramFlags(command, &options)
	flags := command.Flags()
	flags.DurationVar(&length, "duration", 5*time.Minute, "send requests for this `TIME`")
	flags.StringVar(&page, "html", "fleet.html", "write the page to `FILE`")
	flags.BoolVar(&replace, "force", false, "replace the page if it is there")
	return command
}
