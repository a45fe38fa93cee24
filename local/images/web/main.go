// Command web is a small web server that can use a chosen amount of CPU time for each request. It
// replaces nginx, Apache httpd and go-demo in the example manifests.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"pinfold.dev/pinfold/local/workload"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "web: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("web", flag.ContinueOnError)
	listen := flags.String("listen", ":8080", "address to serve on")
	size := flags.Int("size", 615, "bytes of the page; that of nginx has 615")
	cpu := flags.Duration("cpu", 0, "CPU time of a request without ?cpu=")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("read the arguments: %w", err)
	}
	return workload.Server{Size: *size, CPU: *cpu}.Serve(ctx, *listen, os.Stdout)
}
