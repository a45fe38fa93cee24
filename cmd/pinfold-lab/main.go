// Command pinfold-lab repeats experiments on this machine.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"pinfold.dev/pinfold/cmd/internal/usage"
	"pinfold.dev/pinfold/cmd/pinfold-lab/cli"
	"pinfold.dev/pinfold/linux/confine"
)

func main() {
	if status, ok := confine.Helper(os.Args[1:]); ok {
		os.Exit(status)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer cancel()
	err := cli.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintf(os.Stderr, "pinfold-lab: %v\n", err)
	}
	os.Exit(usage.ExitStatus(err))
}
