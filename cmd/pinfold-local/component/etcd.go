package component

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
)

func etcd(flags []string) int {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	if err := serveEtcd(ctx, flags); err != nil {
		fmt.Fprintf(os.Stderr, "etcd: %v\n", err)
		return 1
	}
	return 0
}

// serveEtcd runs one member as a configuration file says, which has the names
// of etcd's flags as its keys.
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
