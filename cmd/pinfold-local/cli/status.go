package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/internal/usage"
	"pinfold.dev/pinfold/lab/localcluster"
)

func newStatus() *cobra.Command {
	var dir, output string
	command := &cobra.Command{
		Use:   "status",
		Short: "Show the components of a running cluster",
		Args:  usage.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			write, ok := map[string]func(io.Writer, localcluster.State) error{"text": writeText, "json": writeJSON}[output]
			if !ok {
				return usage.Errorf("output %q is neither text nor json", output)
			}
			state, err := localcluster.ReadState(dir)
			if err != nil {
				return err
			}
			return write(command.OutOrStdout(), state)
		},
	}
	addDirFlag(command, &dir)
	command.Flags().StringVarP(&output, "output", "o", "text", "print the result as `text|json`")
	return command
}

func writeJSON(out io.Writer, state localcluster.State) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(state)
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
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%v\n", c.Name, c.State, c.PID, c.Restarts,
			time.Since(c.Started).Round(time.Second))
	}
	return table.Flush()
}
