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
		// Components handle signals themselves.
		os.Exit(component.Main(os.Args[2:], os.Stderr))
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer cancel()
	// If a reader such as head closes the pipe, the write fails, and the cluster is removed as after
	// other errors.
	signal.Ignore(syscall.SIGPIPE)
	// Discard the global flags that Kubernetes' packages have registered.
	pflag.CommandLine = pflag.NewFlagSet("pinfold-local", pflag.ContinueOnError)
	// client-go logs connections that end with the cluster. The errors below report them as well.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	err := cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintf(os.Stderr, "pinfold-local: %v\n", err)
	}
	os.Exit(usage.ExitStatus(err))
}
