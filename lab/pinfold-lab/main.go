// Command pinfold-lab repeats experiments on this machine.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/linux/confine"
)

func main() {
	if status, ok := confine.Helper(os.Args[1:]); ok {
		os.Exit(status)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer cancel()
	frame.Main(ctx, newRoot(), os.Args[1:])
}

func newRoot() *cobra.Command {
	return frame.New(&cobra.Command{
		Use:   "pinfold-lab",
		Short: "Repeat experiments on this machine",
		Long: `Repeat experiments about CPUs on this machine, and compare what is measured in
many short windows, in random order. An experiment needs root: it makes control
groups, and removes them in the end.`,
		Example: `  pinfold-lab list
  pinfold-lab run burst --quick`,
	}, newAdvice(), newContention(), newFleet(), newList(), newRun(), newReport(), newWorkload())
}
