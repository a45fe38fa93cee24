// Command pinfold-agent is the node daemon of Pinfold: it applies the CPU decisions of the Pinfold
// scheduler to the cgroups of its node, and keeps them applied.
//
// Messages go to standard error. The exit status is 0 on success, 1 on failure, and 2 on wrong
// usage.
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
)

func main() {
	// client-go logs each failed attempt; the agent logs the error once.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	frame.Main(ctx, newRoot(), os.Args[1:])
}

func newRoot() *cobra.Command {
	return frame.New(&cobra.Command{
		Use:   "pinfold-agent",
		Short: "Allocate the CPUs of this node to pods, and enforce that",
		Long: `Allocate the CPUs of this node to the pods that ask for some, set and keep the
CPUs and the quota of containers, and publish what the node has. The agent runs
on every node. When it stops, nothing is undone but raised quotas:
"pinfold-agent cleanup" does that.`,
		Example: `  pinfold-agent doctor
  pinfold-agent run --node-name worker-1 --kubeconfig agent.conf`,
	}, newRun(), newStatus(), newDoctor(), newCleanup(), newUninstall(), newWait())
}
