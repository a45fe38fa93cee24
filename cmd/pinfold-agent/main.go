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
		Short: "Enforce the CPU decisions of the Pinfold scheduler on this node",
		Long: `Set the CPUs and the quota of containers on this node as the scheduler decided,
keep them set, and publish the CPU topology of the node. The agent runs on every
node. When it stops, nothing is undone; "pinfold-agent cleanup" does that.`,
		Example: `  pinfold-agent doctor
  pinfold-agent run --node-name worker-1 --kubeconfig agent.conf`,
	}, newRun(), newStatus(), newDoctor(), newCleanup(), newUninstall(), newWait())
}
