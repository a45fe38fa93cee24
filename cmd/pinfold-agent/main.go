// Command pinfold-agent is the daemon of a node: it makes what the Pinfold scheduler
// decided about CPUs the settings of the kernel, and keeps it so.
//
// Messages go to standard error. The exit status is 0 when it did what was asked, 1
// when it could not, 2 when the question was wrong.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "pinfold-agent:", err)
	}
	os.Exit(exitStatus(err))
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

// usageError is a mistake on the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func exitStatus(err error) int {
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
		Use:   "pinfold-agent",
		Short: "Enforce on this node what the Pinfold scheduler decided about CPUs",
		Long: `pinfold-agent runs on every node. It gives containers the CPUs and the quota that
the scheduler decided on, keeps these settings, and publishes the CPU topology of
the node. When it stops, nothing is undone; "pinfold-agent cleanup" does that.`,
		Args:          noArguments,
		SilenceUsage:  true,
		SilenceErrors: true, // main prints them
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	})
	root.AddCommand(newRun(), newDoctor(), newCleanup(), newVersion())
	return root
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError{fmt.Errorf("%s does not know what to do with %q; see %s --help", cmd.CommandPath(), args[0], cmd.CommandPath())}
}
