// Package cli implements the command line of pinfold-local.
package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/internal/completion"
	"pinfold.dev/pinfold/cmd/internal/usage"
	"pinfold.dev/pinfold/report/terminal"
)

// Run executes a command line, given without the program's name. Results go to stdout, messages to
// stderr. When ctx ends, a running cluster is stopped and removed.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return root.ExecuteContext(ctx)
}

func newRoot() *cobra.Command {
	return completion.Install(usage.Complete(&cobra.Command{
		Use:   "pinfold-local",
		Short: "Run a Kubernetes cluster with Pinfold's scheduler on this machine",
		Long: `pinfold-local runs a whole Kubernetes control plane on this machine: etcd,
kube-apiserver, kube-controller-manager and Pinfold's scheduler, with any number
of simulated nodes of any shape. It needs no privilege, listens on 127.0.0.1
only, and keeps everything in one directory, which it removes in the end.`,
	}, newUp(), newDown(), newStatus(), newDemo()))
}

// defaultDir is the default data directory.
const defaultDir = ".pinfold"

func addDirFlag(command *cobra.Command, dir *string) {
	command.Flags().StringVar(dir, "data-dir", defaultDir, "`DIR` of the cluster's data, logs and kubeconfig")
}

// progress reports steps with the time since its creation, if the output is a terminal.
type progress struct {
	out   io.Writer
	begin time.Time
}

func newProgress(out io.Writer) *progress {
	if !terminal.Is(out) {
		out = io.Discard
	}
	return &progress{out: out, begin: time.Now()}
}

func (p *progress) step(what string) {
	fmt.Fprintf(p.out, "%5.1fs  %s\n", time.Since(p.begin).Seconds(), what)
}
