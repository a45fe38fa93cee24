package component

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kwok/pkg/config"
	kwokcmd "sigs.k8s.io/kwok/pkg/kwok/cmd"
	"sigs.k8s.io/kwok/pkg/log"

	"pinfold.dev/pinfold/local/images"
	"pinfold.dev/pinfold/local/localcluster"
	"pinfold.dev/pinfold/local/registry"
	"pinfold.dev/pinfold/local/simnode"
)

// etcdQuotaBytes exceeds the default of 2 GiB, because the revisions of 1,000 nodes and many
// thousands of pods in a long benchmark need more.
const etcdQuotaBytes = 8 << 30

// serveEtcd runs the only member of a cluster in the working directory, which is the data directory.
func serveEtcd(ctx context.Context, _ []string) error {
	config := embed.NewConfig()
	config.Name, config.Dir, config.LogLevel = "local", localcluster.EtcdData, "warn"
	config.UnsafeNoFsync, config.QuotaBackendBytes = true, etcdQuotaBytes
	clients, peers := []url.URL{{Scheme: "unix", Host: localcluster.EtcdSocket}}, []url.URL{{Scheme: "unix", Host: localcluster.EtcdPeerSocket}}
	config.ListenClientUrls, config.AdvertiseClientUrls = clients, clients
	config.ListenPeerUrls, config.AdvertisePeerUrls = peers, peers
	config.InitialCluster = config.InitialClusterFromName(config.Name)
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

// serveAgents runs the agents of simulated nodes.
func serveAgents(ctx context.Context, flags []string) error {
	set := flag.NewFlagSet("agents", flag.ContinueOnError)
	kubeconfig := set.String("kubeconfig", "", "how to reach the API server")
	if err := set.Parse(flags); err != nil {
		return fmt.Errorf("parse flags: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 5000, 10000
	return simnode.RunAgents(ctx, config)
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
	listen := net.ListenConfig{Control: localcluster.SharePort}
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
