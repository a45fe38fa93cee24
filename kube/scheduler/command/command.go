// Package command builds the kube-scheduler command with the Pinfold plugin:
//
//	os.Exit(cli.Run(command.New("v1.2.3")))
//
// It is [app.NewSchedulerCommand] with one addition: the plugin watches the leader election lease,
// so that no decision of a former leader is bound. [app.NewSchedulerCommand] does not expose its
// configuration, so the command is built here.
package command

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/version/verflag"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"pinfold.dev/pinfold/kube/scheduler"
)

// New returns the command, with the flags of kube-scheduler. Its lease names the given version of
// Pinfold.
func New(version string) *cobra.Command {
	o := options.NewOptions()
	cmd := &cobra.Command{
		Use:               "kube-scheduler",
		Args:              cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error { return o.ComponentGlobalsRegistry.Set() },
		RunE:              func(cmd *cobra.Command, _ []string) error { return run(cmd, o, version) },
	}
	sets := o.Flags
	verflag.AddFlags(sets.FlagSet("global"))
	globalflag.AddGlobalFlags(sets.FlagSet("global"), cmd.Name(), logs.SkipLoggingConfigurationFlags())
	for _, set := range sets.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	cliflag.SetUsageAndHelpFunc(cmd, *sets, 0)
	return cmd
}

// run is app.runCommand (k8s.io/kubernetes cmd/kube-scheduler/app, 1.37) plus Observe.
func run(cmd *cobra.Command, o *options.Options, version string) error {
	verflag.PrintAndExitIfRequested()
	gate := o.ComponentGlobalsRegistry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(o.Logs, gate); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cliflag.PrintFlags(cmd.Flags())
	name, err := cache.NewInformerName("kube-scheduler")
	if err != nil {
		return err
	}
	o.InformerName = name
	ctx := server.SetupSignalContext()
	leadership := &scheduler.Leadership{}
	config, s, err := app.Setup(ctx, o, app.WithPlugin(scheduler.Name, scheduler.NewFactory(leadership)))
	if err != nil {
		return err
	}
	if config.LeaderElection != nil {
		leadership.Observe(config.LeaderElection, version)
	}
	if mutable, ok := gate.(featuregate.MutableFeatureGate); ok {
		mutable.AddMetrics()
	}
	o.ComponentGlobalsRegistry.AddMetrics()
	return app.Run(ctx, config, s)
}
