// Command pinfold-local runs a complete Kubernetes cluster on this machine, with Pinfold's
// scheduler and simulated nodes of any shape.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/cmd/pinfold-local/internal/component"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == component.Word {
		// Components handle signals themselves.
		os.Exit(component.Main(os.Args[2:], os.Stderr))
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer cancel()
	// If a reader such as head closes the pipe, the write fails, and the cluster is removed as after
	// other errors.
	signal.Ignore(syscall.SIGPIPE)
	// client-go logs connections that end with the cluster. The errors below report them as well.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	frame.Main(ctx, newRoot(), os.Args[1:])
}

func newRoot() *cobra.Command {
	return frame.New(&cobra.Command{
		Use:   "pinfold-local",
		Short: "Run a Kubernetes cluster with Pinfold's scheduler on this machine",
		Long: `Run a whole Kubernetes control plane on this machine: etcd, kube-apiserver,
kube-controller-manager and Pinfold's scheduler, with any number of simulated
nodes of any shape. It keeps everything in one directory, which it removes in
the end, and without --node needs no privilege and listens on 127.0.0.1 only.`,
		Example: `  pinfold-local demo
  pinfold-local up --nodes amd-256=3 --detach
  pinfold-local down`,
	}, newUp(), newDown(), newStatus(), newDemo(), newDemoFleet())
}

// defaultDir is the default data directory.
const defaultDir = ".pinfold"

func addDirFlag(command *cobra.Command, dir *string) {
	command.Flags().StringVar(dir, "data-dir", defaultDir, "`DIR` of the cluster's data, logs and kubeconfig")
}
