// Command web is a small web server that can use a chosen amount of CPU time for each request. It
// replaces nginx, Apache httpd and go-demo in the example manifests.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// endTimeout is how long pending requests may take after SIGTERM.
const endTimeout = 5 * time.Second

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
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	fmt.Printf("serving %d bytes on %s\n", *size, listener.Addr())
	return serve(ctx, listener, newHandler(*size, *cpu))
}

// serve serves until ctx ends, and then waits for pending requests.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		return fmt.Errorf("end: %w", err)
	}
	return nil
}
