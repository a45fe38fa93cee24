package component

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/embed"
	"golang.org/x/sys/unix"
	"sigs.k8s.io/kwok/pkg/config"
	kwokcmd "sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"

	"pinfold.dev/pinfold/lab/images"
	"pinfold.dev/pinfold/lab/registry"
)

// serveEtcd runs one member with a configuration file, whose keys are the names of etcd's flags.
func serveEtcd(ctx context.Context, flags []string) error {
	set := flag.NewFlagSet("etcd", flag.ContinueOnError)
	path := set.String("config-file", "", "etcd's configuration, in YAML")
	if err := set.Parse(flags); err != nil {
		return fmt.Errorf("parse flags: %w", err)
	}
	config, err := embed.ConfigFromFile(*path)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	server, err := embed.StartEtcd(config)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	defer server.Close()
	select {
	case err := <-server.Err():
		return fmt.Errorf("serve: %w", err)
	case <-server.Server.StopNotify():
		return errors.New("the server stopped by itself")
	case <-ctx.Done():
		return nil
	}
}

// serveKWOK runs KWOK's controller. It reads the configuration and passes it in the context before
// it creates the command, because the command takes its defaults from there.
func serveKWOK(ctx context.Context, flags []string) error {
	early := pflag.NewFlagSet("early", pflag.ContinueOnError)
	early.ParseErrorsAllowlist.UnknownFlags = true
	early.Usage = func() {}
	ctx, _ = log.InitFlags(ctx, early)
	ctx, err := config.InitFlags(ctx, early)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	// cobra adds the global flags to every command. Those of Kubernetes' components include a
	// --version that is not KWOK's.
	pflag.CommandLine = pflag.NewFlagSet("kwok", pflag.ContinueOnError)
	command := kwokcmd.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(early)
	command.SetArgs(flags)
	return command.ExecuteContext(ctx)
}

// serveRegistry serves the images of the local cluster on a port that its supervisor has reserved.
func serveRegistry(ctx context.Context, flags []string) error {
	set := flag.NewFlagSet("registry", flag.ContinueOnError)
	var layouts []string
	set.Func("images", "directory with an OCI image layout to serve, too", func(dir string) error {
		layouts = append(layouts, dir)
		return nil
	})
	address := set.String("listen", "", "host:port to serve on")
	programs := set.String("programs", "", "directory of the images' executables")
	if err := set.Parse(flags); err != nil {
		return fmt.Errorf("parse flags: %w", err)
	}
	handler, err := registry.New(images.All(), *programs, layouts, os.Stderr)
	if err != nil {
		return err
	}
	listen := net.ListenConfig{Control: sharePort}
	listener, err := listen.Listen(ctx, "tcp", *address)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: handler, MaxHeaderBytes: 8 << 10, ReadHeaderTimeout: time.Minute, IdleTimeout: 10 * time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() }) // Serve returns the error
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// sharePort sets the socket option that --permit-port-sharing sets in the components of Kubernetes.
func sharePort(_, _ string, conn syscall.RawConn) error {
	var failed error
	err := conn.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	return errors.Join(err, os.NewSyscallError("setsockopt", failed))
}
