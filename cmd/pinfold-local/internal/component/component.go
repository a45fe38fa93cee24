// Package component contains the servers of a local cluster, one function for each. A process runs
// one of them. They are separate processes of one executable because Kubernetes keeps flags and
// feature gates in global variables.
package component

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // request metrics of the clients
	_ "k8s.io/component-base/metrics/prometheus/version"  // the version as a metric
	apiserverapp "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllerapp "k8s.io/kubernetes/cmd/kube-controller-manager/app"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/kube/scheduler/command"
	"pinfold.dev/pinfold/local/localcluster"
	"pinfold.dev/pinfold/local/localnode"
)

// Word is the first argument with which the executable runs a component.
const Word = "component"

// servers contains a function for each component, which runs it with its flags until the process is
// told to end, and returns the exit status.
var servers = map[string]func(flags []string) int{
	localcluster.Etcd:              serve(serveEtcd),
	localcluster.APIServer:         kubernetes(apiserverapp.NewAPIServerCommand),
	localcluster.ControllerManager: kubernetes(controllerapp.NewControllerManagerCommand),
	localcluster.Scheduler:         kubernetes(newScheduler),
	localcluster.KWOK:              serve(serveKWOK),
	localcluster.Agents:            serve(serveAgents),
	localnode.Registry:             serve(serveRegistry),
}

// Main runs the component named by the first argument, with the other arguments as its flags. It
// returns the exit status.
func Main(args []string, stderr io.Writer) int {
	if len(args) == 0 || servers[args[0]] == nil {
		fmt.Fprintf(stderr, "pinfold-local: give one of these components, and its flags: %s\n",
			strings.Join(slices.Sorted(maps.Keys(servers)), ", "))
		return 2
	}
	// Some components and their libraries read the arguments of the process.
	os.Args = args
	return servers[args[0]](args[1:])
}

// kubernetes returns a server that runs a component's command.
func kubernetes(newCommand func() *cobra.Command) func(flags []string) int {
	return func(flags []string) int {
		command := newCommand()
		command.SetArgs(flags)
		return cli.Run(command)
	}
}

// settle is short, because a local cluster has one API server.
const settle = 10 * time.Second

func newScheduler() *cobra.Command { return command.New(frame.Version().Version, settle) }

// serve returns a server that runs a function until a signal cancels its context.
func serve(run func(ctx context.Context, flags []string) error) func(flags []string) int {
	return func(flags []string) int {
		ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer cancel()
		if err := run(ctx, flags); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[0], err)
			return 1
		}
		return 0
	}
}
