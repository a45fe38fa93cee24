// Command pinfold-agent is the daemon of a node: it makes what the Pinfold scheduler
// decided about CPUs the settings of the kernel, and keeps it so.
//
// Messages go to standard error. The exit status is 0 when it did what was asked, 1
// when it could not, 2 when the question was wrong.
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

// run executes one command line.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	// client-go logs each failed try; the agent says what is wrong once.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return root.ExecuteContext(ctx)
}

func newRoot() *cobra.Command {
	return usage.Complete(&cobra.Command{
		Use:   "pinfold-agent",
		Short: "Enforce on this node what the Pinfold scheduler decided about CPUs",
		Long: `pinfold-agent runs on every node. It gives containers the CPUs and the quota that
the scheduler decided on, keeps these settings, and publishes the CPU topology of
the node. When it stops, nothing is undone; "pinfold-agent cleanup" does that.`,
	}, newRun(), newDoctor(), newCleanup(), newVersion())
}
