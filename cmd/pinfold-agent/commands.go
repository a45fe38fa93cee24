package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"pinfold.dev/pinfold/agent"
	"pinfold.dev/pinfold/cmd/internal/frame"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/sampler"
)

func newRun() *cobra.Command {
	var node nodeOptions
	var o agent.Options
	var keys, ceilings string
	var secure bool
	var certificate agent.Secure
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the agent",
		Args:  frame.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := node.apply(&o, cmd.ErrOrStderr()); err != nil {
				return err
			}
			if o.MinShared < 0 || o.Period <= 0 || o.SampleEvery <= 0 {
				return frame.Usagef("--min-shared-cpus must not be negative, and --period and --sample must be more than 0")
			}
			if o.SampleInterval != 0 {
				if err := sampler.CheckInterval(o.SampleInterval); err != nil {
					return frame.Usagef("--sample-interval: %w; 0 turns sampling off", err)
				}
			}
			if (certificate.CertFile == "") != (certificate.KeyFile == "") || certificate.CertFile != "" && !secure {
				return frame.Usagef("--tls-cert-file and --tls-private-key-file go together, and with --metrics-secure")
			}
			if secure {
				config, err := restConfig(node.kubeconfig)
				if err != nil {
					return err
				}
				if certificate.Reviews, err = kubernetes.NewForConfig(config); err != nil {
					return fmt.Errorf("make a client: %w", err)
				}
				o.Secure = &certificate
			}
			if !cmd.Flags().Changed("nri-socket") {
				o.Socket = agent.DefaultSocket(o.Root)
			}
			if o.Keys, err = readKeys(keys, o.Log); err != nil {
				return err
			}
			if err := checkBurst(&o.Config); err != nil {
				return err
			}
			if o.Partition == noPartition {
				o.Partition = cgroup.PartitionMember
			}
			if err := errors.Join(checkBatch(cmd.Flags(), &o.Config, o.BatchMaxWait), checkTrace(&o)); err != nil {
				return err
			}
			if o.Ceilings, err = readCeilings(ceilings); err != nil {
				return err
			}
			return agent.Run(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	node.addWriter(flags)
	addBurst(flags, &o.Config)
	addPartition(flags, &o.Config)
	addBatch(flags, &o.Config, &o.BatchMaxWait)
	addTrace(flags, &o)
	flags.StringVar(&ceilings, "ceilings", "", "YAML `FILE` that limits what pods get by their annotations; read once, at the start")
	flags.StringVar(&o.Listen, "listen", "127.0.0.1:9652", `where /metrics, /healthz and /readyz are served; "" for nowhere`)
	flags.BoolVar(&secure, "metrics-secure", false, "serve over TLS, and /metrics only to clients that the API server allows to get it")
	flags.StringVar(&certificate.CertFile, "tls-cert-file", "", "`FILE` with the server's certificate, read again when it changes (default: self-signed)")
	flags.StringVar(&certificate.KeyFile, "tls-private-key-file", "", "`FILE` with the key of --tls-cert-file")
	flags.StringVar(&o.Socket, "nri-socket", "", "the container runtime's NRI socket, a `PATH`; empty disables NRI (default: run/nri/nri.sock below --host-root)")
	flags.StringVar(&keys, "allocation-keys", "", "`FILE` of public keys (PEM): only allocations signed by one of them are accepted (default: all are)")
	flags.IntVar(&o.MinShared, "min-shared-cpus", api.DefaultMinSharedCPUs, "number of CPUs that always stay shared, as in the scheduler's minSharedCPUs")
	flags.DurationVar(&o.Period, "period", agent.DefaultPeriod, "how often everything is checked when nothing seems to change")
	flags.DurationVar(&o.SampleEvery, "sample", agent.DefaultSampleEvery, "how often the load of the CPUs is read, while core sets follow it")
	flags.DurationVar(&o.SampleInterval, "sample-interval", agent.DefaultSampleInterval,
		"least time between two samples of a container, which is sampled once in each of its periods, or less often in a pod with more than a hundred of them; 0 disables sampling: no quota is raised then")
	return cmd
}

func newCleanup() *cobra.Command {
	var node nodeOptions
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Restore the control groups to what the kubelet would set",
		Long: `cleanup gives all containers of this node all CPUs and the quota that the kubelet
would set, and removes the node's topology object, lease and condition. Stop the agent
first, or it undoes the cleanup.`,
		Args: frame.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var o agent.Options
			if err := node.apply(&o, cmd.ErrOrStderr()); err != nil {
				return err
			}
			result, err := agent.Cleanup(cmd.Context(), o)
			fmt.Fprintf(cmd.OutOrStdout(), "%d settings of control groups restored\n", len(result.Written))
			return err
		},
	}
	node.addWriter(cmd.Flags())
	return cmd
}
