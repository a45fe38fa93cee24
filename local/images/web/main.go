// Command web is a small web server that uses as much CPU time for a request as that asks for. It
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
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("read the arguments: %w", err)
	}
	return workload.Server{Size: *size}.Serve(ctx, *listen, os.Stdout)
}
