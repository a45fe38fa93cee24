package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/kube/admission"
	"pinfold.dev/pinfold/kube/scheduler"
	"pinfold.dev/pinfold/kube/versions"
	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/local/localcluster"
	"pinfold.dev/pinfold/local/localnode"
	"pinfold.dev/pinfold/local/simnode"
)

// upOptions are the flags of up.
type upOptions struct {
	dir             string
	schedulerConfig string
	stock           bool // without Pinfold
	keepData        bool
	kubernetes      string // minor version that the control plane emulates
	featureGates    map[string]bool
	detach          bool
	node            bool            // with a real node
	binaries        string          // directory of the real node's programs
	cgroupDriver    kubepods.Driver // of the real node
	agentFlags      []string        // of the real node's agent
	images          []string        // OCI image layouts for the real node
	shapes          []string        // SHAPE[=COUNT]
	machines        []string        // FILE[=COUNT]
}

func newUp() *cobra.Command {
	var options upOptions
	command := &cobra.Command{
		Use:   "up [flags]",
		Short: "Start a cluster and run it until ctrl-C",
		Long: `Start a cluster, print how to use it, and run it until ctrl-C or "pinfold-local
down". With --detach it continues in the background.`,
		Example: `  pinfold-local up --nodes intel-104 --nodes amd-256=2
  pinfold-local up --detach --data-dir /tmp/other
  pinfold-local up --node`,
		Args: frame.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := options.checkNode(command.Flags()); err != nil {
				return err
			}
			if options.stock && len(options.shapes)+len(options.machines) > 0 {
				return frame.Usagef("simulated nodes publish their CPU topology, which --stock leaves out: use --node instead of --nodes and --machine")
			}
			if options.stock && (options.schedulerConfig != "" || len(options.agentFlags) > 0) {
				return frame.Usagef("--scheduler-config and --agent-flag configure Pinfold, which --stock leaves out")
			}
			emulated, err := versions.Parse(options.kubernetes)
			if err != nil {
				return frame.Usagef("--kubernetes: %v", err)
			}
			if options.node && emulated.LessThan(versions.Newest()) {
				return frame.Usagef("the kubelet of a real node is %s and must not be newer than the control plane: leave out --kubernetes or --node", versions.Newest())
			}
			if err := checkGates(emulated, options.featureGates); err != nil {
				return frame.Usagef("--feature-gates: %v", err)
			}
			if options.detach {
				return detach(command.Context(), options, command.Flags(), command.OutOrStdout(), command.ErrOrStderr())
			}
			return up(command.Context(), options, command.OutOrStdout(), command.ErrOrStderr())
		},
	}
	addDirFlag(command, &options.dir)
	addNodeFlags(command, &options)
	flags := command.Flags()
	flags.StringVar(&options.schedulerConfig, "scheduler-config", "",
		"KubeSchedulerConfiguration `FILE` without clientConnection.kubeconfig, instead of Pinfold's default")
	flags.BoolVar(&options.stock, "stock", false,
		"leave Pinfold out: a cluster with Kubernetes' own scheduler, to install Pinfold on; its only node is that of --node")
	flags.StringVar(&options.kubernetes, "kubernetes", versions.Newest().String(),
		"minor `VERSION` of Kubernetes that the control plane emulates: "+strings.Join(versions.Supported(), ", "))
	flags.Var(cliflag.NewMapStringBool(&options.featureGates), "feature-gates",
		"`NAME=true|false,...` for all components of Kubernetes")
	frame.CompleteExtensions(command, "scheduler-config", "yaml", "yml", "json")
	frame.CompleteWords(command, "kubernetes", versions.Supported()...)
	flags.StringArrayVar(&options.images, "images", nil,
		"also serve the images of an OCI image layout in this `DIR` to the real node; may be repeated")
	flags.BoolVar(&options.keepData, "keep-data", false, "keep the data directory at the end")
	flags.StringArrayVar(&options.shapes, "nodes", nil,
		"simulated nodes: `SHAPE[=COUNT]`, where SHAPE is intel-104, amd-256, host (this machine), or counts as in "+
			simnode.ShapeSyntax+"; may be repeated")
	flags.StringArrayVar(&options.machines, "machine", nil,
		"simulated nodes of the machine in a `FILE[=COUNT]`, as written by pinfold topology -o json; may be repeated")
	frame.CompleteExtensions(command, "machine", "json")
	frame.CompleteFlag(command, "nodes", func(context.Context) []string { return append(simnode.ShapeNames(), hostShape) })
	flags.BoolVar(&options.detach, "detach", false, "return when the cluster is ready and leave it running")
	return command
}

// addNodeFlags adds the flags of a real node.
func addNodeFlags(command *cobra.Command, options *upOptions) {
	flags := command.Flags()
	flags.BoolVar(&options.node, "node", false, "make this machine a real node, with kubelet and containerd; needs root")
	flags.StringArrayVar(&options.agentFlags, "agent-flag", nil,
		"a `FLAG` for the real node's \"pinfold-agent run\", such as --agent-flag=--burst-policy=auto; may be repeated")
	addProgramFlags(command, options)
}

// addProgramFlags adds the flags of the programs of a real node.
func addProgramFlags(command *cobra.Command, options *upOptions) {
	flags := command.Flags()
	flags.StringVar(&options.binaries, "node-binaries", "",
		"`DIR` of the real node's programs, as \"make build-node\" makes it (default: node, beside this program)")
	options.cgroupDriver = kubepods.Cgroupfs
	frame.Var(flags, &options.cgroupDriver, "cgroup-driver", "cgroupfs|systemd",
		"the real node's driver for cgroups; systemd must run on this machine", kubepods.ParseDriver)
}

// checkNode rejects flags of a real node without one.
func (o upOptions) checkNode(flags *pflag.FlagSet) error {
	return frame.Needs(flags, "node", "node-binaries", "cgroup-driver", "agent-flag", "images")
}

// checkGates returns an error if a version of Kubernetes does not have these feature gates.
func checkGates(emulated *version.Version, gates map[string]bool) error {
	known := feature.DefaultMutableFeatureGate.DeepCopyAndReset()
	if err := known.SetEmulationVersion(emulated); err != nil {
		return err
	}
	return known.SetFromMap(gates)
}

// up runs a cluster until the context ends.
func up(ctx context.Context, options upOptions, stdout, stderr io.Writer) error {
	groups, err := nodeGroups(options.shapes, options.machines)
	if err != nil {
		return err
	}
	config, err := options.clusterConfig(stderr, simnode.Nodes(groups))
	if err != nil {
		return err
	}
	cluster, err := localcluster.Start(ctx, config)
	if err != nil {
		return err
	}
	if err := announce(options.dir, stdout); err != nil {
		return errors.Join(err, cluster.Stop())
	}
	select {
	case err := <-cluster.Failed():
		return errors.Join(err, cluster.Stop())
	case <-ctx.Done():
		fmt.Fprintln(stderr, "stopping the cluster")
		return cluster.Stop()
	}
}

// clusterConfig returns the configuration of a cluster with Pinfold's scheduler and the given
// nodes.
func (o upOptions) clusterConfig(stderr io.Writer, nodes []simnode.Node) (localcluster.Config, error) {
	executable, err := os.Executable()
	if err != nil {
		return localcluster.Config{}, fmt.Errorf("find the components: %w", err)
	}
	config := localcluster.Config{
		Executable:   executable,
		Dir:          o.dir,
		KeepData:     o.keepData,
		Kubernetes:   o.kubernetes,
		FeatureGates: o.featureGates,
		Stock:        o.stock,
		Populate: func(ctx context.Context, admin *rest.Config) error {
			return populate(ctx, admin, nodes)
		},
		Progress: frame.NewProgress(stderr).Step,
		Logger:   slog.New(slog.NewTextHandler(stderr, nil)),
	}
	if !o.stock {
		config.Install, config.SchedulerConfig = install, []byte(scheduler.DefaultConfiguration)
	}
	if o.node {
		binaries := o.binaries
		if binaries == "" {
			binaries = filepath.Join(filepath.Dir(executable), "node")
		}
		config.RealNode = &localnode.Options{Binaries: binaries, AgentFlags: o.agentFlags, Images: o.images, CgroupDriver: o.cgroupDriver}
		agent := filepath.Join(filepath.Dir(executable), "pinfold-agent")
		if o.stock {
			return config, nil
		}
		if _, err := os.Stat(agent); err == nil {
			config.RealNode.Agent = agent
		} else {
			fmt.Fprintf(stderr, "no pinfold-agent beside %s: pods that ask for CPUs are not scheduled to this machine\n", executable)
		}
	}
	if o.schedulerConfig != "" {
		if config.SchedulerConfig, err = os.ReadFile(o.schedulerConfig); err != nil {
			return config, fmt.Errorf("read the scheduler's configuration: %w", err)
		}
	}
	return config, nil
}

// install installs what the scheduler needs in the API server.
func install(ctx context.Context, admin *rest.Config) error {
	if err := simnode.InstallCRD(ctx, admin); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	return localnode.Answered(ctx, func() error { return admission.Install(ctx, client) })
}

func populate(ctx context.Context, admin *rest.Config, nodes []simnode.Node) error {
	if err := simnode.Create(ctx, admin, nodes); err != nil {
		return err
	}
	return simnode.WaitReady(ctx, admin, nodes)
}

// announce prints how to use a running cluster.
func announce(dir string, stdout io.Writer) error {
	state, err := localcluster.ReadState(dir)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "cluster ready at %s\n\n  kubectl --kubeconfig %s get nodes\n  pinfold-local down --data-dir %s\n\n",
		state.Server, state.Kubeconfig, dir)
	return err
}

func newDown() *cobra.Command {
	var dir string
	command := &cobra.Command{
		Use:   "down [flags]",
		Short: "Stop a cluster and remove what it left",
		Long: `Stop a cluster, and remove its data directory and what it changed on this
machine, also after kill -9.`,
		Example: `  pinfold-local down
  pinfold-local down --data-dir /tmp/other`,
		Args: frame.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			return down(command.Context(), dir, command.ErrOrStderr())
		},
	}
	addDirFlag(command, &dir)
	return command
}

// down stops the cluster, if there is one, and removes what it or an earlier one left.
func down(ctx context.Context, dir string, stderr io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stopTimeout, fmt.Errorf("waited %v", stopTimeout))
	defer cancel()
	said := follow(localcluster.SupervisorLog(dir))
	err := localcluster.Shutdown(ctx, dir)
	said(stderr)
	switch {
	case err == nil:
		fmt.Fprintf(stderr, "stopped the cluster in %s\n", dir)
		return nil
	case !errors.Is(err, localcluster.ErrNotRunning):
		return err
	}
	_, reason := localcluster.ReadState(dir)
	removed, err := localcluster.Remove(dir, slog.New(slog.NewTextHandler(stderr, nil)))
	if err != nil {
		return err
	}
	if reason == nil { // it ended after ReadState
		reason = localcluster.ErrNotRunning
	}
	fmt.Fprintln(stderr, reason)
	if removed {
		fmt.Fprintf(stderr, "removed what it left in %s\n", dir)
	}
	return nil
}
