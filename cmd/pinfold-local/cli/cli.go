// Package cli implements the command line of pinfold-local.
package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/internal/usage"
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

func newRoot() *cobra.Command {
	return usage.Complete(&cobra.Command{
		Use:   "pinfold-local",
		Short: "Run a Kubernetes cluster with Pinfold's scheduler on this machine",
		Long: `pinfold-local runs a whole Kubernetes control plane on this machine: etcd,
kube-apiserver, kube-controller-manager and Pinfold's scheduler, with any number
of simulated nodes of any shape. It needs no privilege, listens on 127.0.0.1
only, and keeps everything in one directory, which it removes in the end.`,
	}, newUp(), newDown(), newStatus(), newDemo(), newLoad())
}

// defaultDir is where a cluster lives when nothing else is said.
const defaultDir = ".pinfold"

func addDirFlag(command *cobra.Command, dir *string) {
	command.Flags().StringVar(dir, "data-dir", defaultDir, "directory of the cluster's data, logs and kubeconfig")
}
