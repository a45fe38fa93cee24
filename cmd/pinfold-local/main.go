// Command pinfold-local runs a complete Kubernetes cluster on this machine, with Pinfold's
// scheduler and simulated nodes of any shape.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"pinfold.dev/pinfold/cmd/internal/usage"
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
	// A reader that goes away early, such as head, is an error like any other
	// and no reason to leave things behind.
	signal.Ignore(syscall.SIGPIPE)
	// Flags that Kubernetes' packages define for whole processes are not ours.
	pflag.CommandLine = pflag.NewFlagSet("pinfold-local", pflag.ContinueOnError)
	// client-go logs connections that end with the cluster; errors say the same.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	err := cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintf(os.Stderr, "pinfold-local: %v\n", err)
	}
	os.Exit(usage.ExitStatus(err))
}
