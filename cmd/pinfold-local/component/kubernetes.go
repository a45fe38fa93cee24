package component

import (
	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // request metrics of the clients
	_ "k8s.io/component-base/metrics/prometheus/version"  // the version as a metric
	apiserverapp "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllerapp "k8s.io/kubernetes/cmd/kube-controller-manager/app"

	"pinfold.dev/pinfold/kube/scheduler/command"
)

func apiServer(flags []string) int { return run(apiserverapp.NewAPIServerCommand(), flags) }

func controllerManager(flags []string) int {
	return run(controllerapp.NewControllerManagerCommand(), flags)
}

func scheduler(flags []string) int {
	return run(command.New(), flags)
}

func run(command *cobra.Command, flags []string) int {
	command.SetArgs(flags)
	return cli.Run(command)
}
