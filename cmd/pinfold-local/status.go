package main

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/local/localcluster"
)

func newStatus() *cobra.Command {
	var dir string
	command := &cobra.Command{
		Use:   "status [flags]",
		Short: "Show the components of a running cluster",
		Long:  "Show where a cluster is served, its version, and the state of its components.",
		Example: `  pinfold-local status
  pinfold-local status --data-dir /tmp/other -o json`,
		Args: frame.NoArguments,
	}
	addDirFlag(command, &dir)
	output := frame.OutputFlag(command)
	command.RunE = func(command *cobra.Command, _ []string) error {
		state, err := localcluster.ReadState(dir)
		switch {
		case err != nil:
			return err
		case *output == frame.JSON:
			return frame.PrintJSON(command.OutOrStdout(), state)
		}
		return writeText(command.OutOrStdout(), state)
	}
	return command
}

func writeText(out io.Writer, state localcluster.State) error {
	condition := "ready"
	if !state.Ready {
		condition = "starting: " + state.Step
	}
	fmt.Fprintf(out, "server      %s (%s)\nkubernetes  %s\nkubeconfig  %s\nsupervisor  process %d\n\n",
		state.Server, condition, state.Kubernetes, state.Kubeconfig, state.Supervisor)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "COMPONENT\tSTATE\tPID\tRESTARTS\tUP")
	for _, c := range state.Components {
		pid, up := "-", "-"
		if c.PID != 0 { // it runs
			pid, up = strconv.Itoa(c.PID), time.Since(c.Started).Round(time.Second).String()
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\n", c.Name, c.State, pid, c.Restarts, up)
	}
	return table.Flush()
}
