// Package command builds the kube-scheduler command with the Pinfold plugin:
//
//	os.Exit(cli.Run(command.New("v1.2.3", command.Settle)))
//
// It is [app.NewSchedulerCommand] with three additions. The scheduler runs as the minor version of its API
// server: a newer one would wait for ever for kinds that the API server does not have. Its lease names
// its version, if a profile uses the plugin. And what clients can make its server of metrics and health
// checks keep has bounds. [app.NewSchedulerCommand] does not expose its configuration, so the command is
// built here.
package command

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/version/verflag"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	k8sscheduler "k8s.io/kubernetes/pkg/scheduler"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"pinfold.dev/pinfold/kube/scheduler"
	"pinfold.dev/pinfold/kube/versions"
)

// emulation is the flag that sets the version of Kubernetes as which the scheduler runs.
const emulation = "emulated-version"

// New returns the command, with the flags of kube-scheduler. Its lease names the given release of
// Pinfold. Without the flag --emulated-version it runs as the version of its API server, and ends
// when that has had another version for a time, usually [Settle].
func New(release string, settle time.Duration) *cobra.Command {
	o := options.NewOptions()
	cmd := &cobra.Command{
		Use:  "kube-scheduler",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd, o, release, settle) },
	}
	sets := o.Flags
	verflag.AddFlags(sets.FlagSet("global"))
	globalflag.AddGlobalFlags(sets.FlagSet("global"), cmd.Name(), logs.SkipLoggingConfigurationFlags())
	for _, set := range sets.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	cmd.Flag(emulation).Usage = "The minor version of Kubernetes as which the scheduler runs, one of " + strings.Join(versions.Supported(), ", ") +
		".\nWithout this flag it is that of the API server."
	cliflag.SetUsageAndHelpFunc(cmd, *sets, 0)
	return cmd
}

// run is app.runCommand (k8s.io/kubernetes cmd/kube-scheduler/app, 1.37) plus recordVersion, limit and the
// version of the API server, which decides about feature gates and so comes first.
func run(cmd *cobra.Command, o *options.Options, release string, settle time.Duration) error {
	verflag.PrintAndExitIfRequested()
	ctx, cancel := context.WithCancel(server.SetupSignalContext())
	defer cancel()
	asks := !cmd.Flags().Changed(emulation)
	var isOver atomic.Bool // the scheduler ends as it should
	if asks {
		watch, err := followAPIServer(ctx, cmd.Flags(), o)
		if err != nil {
			return err
		}
		go func() {
			watch(ctx, settle)
			isOver.Store(ctx.Err() == nil)
			cancel()
		}()
	}
	if err := o.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	gate := o.ComponentGlobalsRegistry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(o.Logs, gate); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cliflag.PrintFlags(cmd.Flags())
	runsAs := o.ComponentGlobalsRegistry.EffectiveVersionFor(basecompatibility.DefaultKubeComponent).EmulationVersion().String()
	klog.InfoS("This scheduler runs as a version of Kubernetes", "version", runsAs, "asTheAPIServer", asks)
	name, err := cache.NewInformerName("kube-scheduler")
	if err != nil {
		return err
	}
	o.InformerName = name
	config, s, err := app.Setup(ctx, o, app.WithPlugin(scheduler.Name, scheduler.New))
	if err != nil {
		return err
	}
	limit(config.SecureServing, &config.Authentication)
	if config.LeaderElection != nil && usesPlugin(s) {
		recordVersion(config.LeaderElection.Lock, release, runsAs)
	}
	if mutable, ok := gate.(featuregate.MutableFeatureGate); ok {
		mutable.AddMetrics()
	}
	o.ComponentGlobalsRegistry.AddMetrics()
	if err := app.Run(ctx, config, s); err != nil && !isOver.Load() { // it always returns one without the election of a leader
		return err
	}
	return nil
}

// usesPlugin reports whether a profile uses the plugin. Otherwise this is a stock kube-scheduler, whatever
// the program is called.
func usesPlugin(s *k8sscheduler.Scheduler) bool {
	for _, profile := range s.Profiles {
		if slices.ContainsFunc(profile.ListPlugins().Filter.Enabled, func(p schedulerconfig.Plugin) bool { return p.Name == scheduler.Name }) {
			return true
		}
	}
	return false
}

// followAPIServer sets the flags as needed to run as the version of the API server. The function
// that it returns ends when the scheduler has to start again as another version, or ctx has ended.
func followAPIServer(ctx context.Context, flags *pflag.FlagSet, o *options.Options) (watch func(context.Context, time.Duration), err error) {
	api, err := newAPIServer(o)
	if err != nil {
		return nil, err
	}
	v, err := api.await(ctx)
	if err != nil {
		return nil, err
	}
	if err := supported(v); err != nil {
		return nil, err
	}
	if gates, ok := flags.Lookup("feature-gates").Value.(*cliflag.ColonSeparatedMultimapStringString); ok {
		dropUnknown(*gates.Multimap, v)
	}
	watch = func(ctx context.Context, settle time.Duration) { api.watch(ctx, v, settle) }
	return watch, flags.Set(emulation, basecompatibility.DefaultKubeComponent+"="+v.String())
}

// dropUnknown removes feature gates that are off from the settings, by component, if Kubernetes
// does not have them yet in a version. kube-scheduler rejects such settings, but they are needed to
// run as the version of its program with an older API server.
func dropUnknown(settings map[string][]string, v *version.Version) {
	known := utilfeature.DefaultMutableFeatureGate.GetAllVersioned()
	for component, list := range settings {
		settings[component] = slices.DeleteFunc(list, func(setting string) bool {
			name, value, _ := strings.Cut(setting, "=")
			on, err := strconv.ParseBool(strings.TrimSpace(value))
			specs := known[featuregate.Feature(strings.TrimSpace(name))]
			unknown := err == nil && !on && len(specs) > 0 && v.LessThan(specs[0].Version)
			if unknown {
				klog.InfoS("A feature gate that is off is ignored, because this version of Kubernetes does not have it", "gate", name, "version", v)
			}
			return unknown
		})
	}
}
