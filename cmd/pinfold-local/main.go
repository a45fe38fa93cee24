// Command pinfold-local runs a whole Kubernetes cluster on this machine, with
// Pinfold's scheduler and simulated nodes of any shape.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"pinfold.dev/pinfold/cmd/pinfold-local/cli"
	"pinfold.dev/pinfold/cmd/pinfold-local/component"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == component.Word {
		// A component has its own way with signals.
		os.Exit(component.Main(os.Args[2:], os.Stderr))
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer cancel()
	err := cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintf(os.Stderr, "pinfold-local: %v\n", err)
	}
	os.Exit(cli.ExitStatus(err))
}
