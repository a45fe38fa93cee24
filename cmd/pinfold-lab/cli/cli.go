// Package cli implements the command line of pinfold-lab.
package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/internal/completion"
	"pinfold.dev/pinfold/cmd/internal/usage"
)

// Run executes a command line, given without the program's name. Results go to stdout, messages to
// stderr. When ctx ends, a running experiment ends, and what it has measured is kept.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return root.ExecuteContext(ctx)
}

func newRoot() *cobra.Command {
	return completion.Install(usage.Complete(&cobra.Command{
		Use:   "pinfold-lab",
		Short: "Repeat experiments on this machine",
		Long: `pinfold-lab repeats experiments about CPUs on this machine, and compares what it
measures in many short windows, in random order. An experiment makes control
groups, which needs root or a delegated group, and removes them in the end.`,
	}, newList(), newRun(), newReport(), newImages(), newWorkload()))
}
