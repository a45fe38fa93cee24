// Package cli is the command line of pinfold-local.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Run executes one command line, without the program's name. Results go to
// stdout, everything else to stderr. Canceling the context ends what runs and
// cleans up.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return root.ExecuteContext(ctx)
}

// usageError is a mistake on the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// ExitStatus is 0 for success, 2 for a mistake on the command line, and 1 for
// any other failure.
func ExitStatus(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		return 2
	default:
		return 1
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "pinfold-local",
		Short: "Run a Kubernetes cluster with Pinfold's scheduler on this machine",
		Long: `pinfold-local runs a whole Kubernetes control plane on this machine: etcd,
kube-apiserver, kube-controller-manager and Pinfold's scheduler, with any number
of simulated nodes of any shape. It needs no privilege, listens on 127.0.0.1
only, and keeps everything in one directory, which it removes in the end.`,
		SilenceUsage:  true,
		SilenceErrors: true, // main prints them
		Args:          noArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			return command.Help()
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(command *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see %s --help", err, command.CommandPath())}
	})
	root.AddCommand(newUp(), newDown(), newStatus(), newDemo())
	return root
}

func noArguments(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError{fmt.Errorf("%s does not know what to do with %q; see %s --help",
		command.CommandPath(), args[0], command.CommandPath())}
}

// defaultDir is where a cluster lives when nothing else is said.
const defaultDir = ".pinfold"

func addDirFlag(command *cobra.Command, dir *string) {
	command.Flags().StringVar(dir, "data-dir", defaultDir, "directory of the cluster's data, logs and kubeconfig")
}
