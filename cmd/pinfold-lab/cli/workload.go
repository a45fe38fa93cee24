package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/internal/usage"
	"pinfold.dev/pinfold/lab/workload"
)

// newWorkload returns the commands that experiments start as processes of their own. Each prints a
// line when it is ready.
func newWorkload() *cobra.Command {
	var listen string
	web := &cobra.Command{Use: "web", Short: "Serve web pages", Args: usage.NoArguments, RunE: func(command *cobra.Command, _ []string) error {
		return workload.Web(command.Context(), listen, 615, 0, command.OutOrStdout())
	}}
	web.Flags().StringVar(&listen, "listen", "127.0.0.1:8080", "`ADDRESS` to serve on")
	var threads int
	batch := &cobra.Command{Use: "batch", Short: "Compute on several threads", Args: usage.NoArguments, RunE: func(command *cobra.Command, _ []string) error {
		if threads < 1 {
			return usage.Errorf("--threads must be 1 or more")
		}
		fmt.Fprintln(command.OutOrStdout(), "computing on", threads)
		workload.Batch(command.Context(), threads)
		return nil
	}}
	batch.Flags().IntVar(&threads, "threads", 1, "`NUMBER` of threads")
	command := &cobra.Command{Use: "workload", Short: "Run a program of an experiment", Hidden: true}
	command.AddCommand(web, batch)
	return command
}
