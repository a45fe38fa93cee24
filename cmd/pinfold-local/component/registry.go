package component

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/lab/images"
	"pinfold.dev/pinfold/lab/registry"
)

func imageRegistry(flags []string) int {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	if err := serveRegistry(ctx, flags); err != nil {
		fmt.Fprintf(os.Stderr, "registry: %v\n", err)
		return 1
	}
	return 0
}

// serveRegistry serves the images of the local cluster on a port that its supervisor
// holds (see localcluster/ports.go).
func serveRegistry(ctx context.Context, flags []string) error {
	set := flag.NewFlagSet("registry", flag.ContinueOnError)
	address := set.String("listen", "", "host:port to serve on")
	programs := set.String("programs", "", "directory of the images' executables")
	if err := set.Parse(flags); err != nil {
		return fmt.Errorf("parse flags: %w", err)
	}
	handler, err := registry.New(images.All(), *programs, os.Stderr)
	if err != nil {
		return err
	}
	listen := net.ListenConfig{Control: shareport}
	listener, err := listen.Listen(ctx, "tcp", *address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() }) // Serve says how it ended
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// shareport sets the option that --permit-port-sharing sets on the others.
func shareport(_, _ string, conn syscall.RawConn) error {
	var failed error
	err := conn.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	return errors.Join(err, os.NewSyscallError("setsockopt", failed))
}
