// Command pinfold-agent is the node daemon of Pinfold: it applies the CPU decisions of the Pinfold
// scheduler to the cgroups of its node, and keeps them applied.
//
// Messages go to standard error. The exit status is 0 on success, 1 on failure, and 2 on wrong
// usage.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"pinfold.dev/pinfold/cmd/internal/completion"
	"pinfold.dev/pinfold/cmd/internal/usage"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "pinfold-agent:", err)
	}
	os.Exit(usage.ExitStatus(err))
}

// run runs one command line.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	// client-go logs each failed attempt; the agent logs the error once.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return root.ExecuteContext(ctx)
}

func newRoot() *cobra.Command {
	return completion.Install(usage.Complete(&cobra.Command{
		Use:   "pinfold-agent",
		Short: "Enforce the CPU decisions of the Pinfold scheduler on this node",
		Long: `pinfold-agent runs on every node. It sets the CPUs and the quota of containers as the
scheduler decided, keeps them set, and publishes the CPU topology of the node.
When it stops, nothing is undone; "pinfold-agent cleanup" does that.`,
	}, newRun(), newDoctor(), newCleanup(), newUninstall(), newWait(), newVersion()))
}
