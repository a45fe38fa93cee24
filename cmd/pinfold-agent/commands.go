package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/agent"
	"pinfold.dev/pinfold/cmd/internal/usage"
	"pinfold.dev/pinfold/cmd/internal/version"
	"pinfold.dev/pinfold/kube/api"
)

func newRun() *cobra.Command {
	var node nodeFlags
	var burst burstFlags
	var listen, socket, allocationKeys string
	var minShared int
	var period, sample, sampleInterval time.Duration
	var batchIdle, secure bool
	var certificate agent.Secure
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the agent",
		Args:  usage.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := node.options(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if minShared < 0 || period <= 0 || sample <= 0 {
				return usage.Errorf("--min-shared-cpus must not be negative, and --period and --sample must be more than 0")
			}
			if err := agent.CheckSampleInterval(sampleInterval); err != nil {
				return usage.Errorf("--sample-interval: %w", err)
			}
			if (certificate.CertFile == "") != (certificate.KeyFile == "") || certificate.CertFile != "" && !secure {
				return usage.Errorf("--tls-cert-file and --tls-private-key-file go together, and with --metrics-secure")
			}
			if secure {
				if certificate.Reviews, err = node.reviews(); err != nil {
					return err
				}
				o.Secure = &certificate
			}
			o.Listen, o.Period, o.SampleEvery, o.SampleInterval = listen, period, sample, sampleInterval
			o.Socket = socket
			if !cmd.Flags().Changed("nri-socket") {
				o.Socket = agent.DefaultSocket(o.Root)
			}
			o.MinShared, o.BatchIdle = minShared, batchIdle
			if o.Keys, err = readKeys(allocationKeys, o.Log); err != nil {
				return err
			}
			if err := burst.set(&o.Config); err != nil {
				return err
			}
			return agent.Run(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	node.addWriter(flags)
	burst.add(flags)
	flags.StringVar(&listen, "listen", "127.0.0.1:9652", `where /metrics, /healthz and /readyz are served; "" for nowhere`)
	flags.BoolVar(&secure, "metrics-secure", false, "serve over TLS, and /metrics only to those whose token the API server knows and allows it")
	flags.StringVar(&certificate.CertFile, "tls-cert-file", "", "its certificate, read again when it changes (default: one that the agent signs itself)")
	flags.StringVar(&certificate.KeyFile, "tls-private-key-file", "", "the key of --tls-cert-file")
	flags.StringVar(&socket, "nri-socket", "", `the container runtime's socket for NRI; "" does without (default: run/nri/nri.sock below --host-root)`)
	flags.StringVar(&allocationKeys, "allocation-keys", "", "file of public keys (PEM): only allocations that one of them has signed count (default: all count)")
	flags.IntVar(&minShared, "min-shared-cpus", api.DefaultMinSharedCPUs, "how many CPUs stay shared at least, as in the scheduler's minSharedCPUs")
	flags.DurationVar(&period, "period", agent.DefaultPeriod, "how often everything is looked at when nothing seems to change")
	flags.DurationVar(&sample, "sample", agent.DefaultSampleEvery, "how often the load of the CPUs is read, where core sets follow it")
	flags.DurationVar(&sampleInterval, "sample-interval", agent.DefaultSampleInterval,
		"least time between two samples of a container, which are taken once in each of its periods; 0 for none: no quota is raised then")
	flags.BoolVar(&batchIdle, "batch-idle", false, "give batch pods (qos BE) the CPU only when nobody else wants it (cpu.idle)")
	return cmd
}

func newCleanup() *cobra.Command {
	var node nodeFlags
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Give everything back: control groups as the kubelet would have them",
		Long: `cleanup gives all containers of this node all CPUs and the quota that the kubelet
would give them, and removes the node's topology object, lease and condition. Stop the
agent first, or it takes everything again.`,
		Args: usage.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := node.options(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			result, err := agent.Cleanup(cmd.Context(), o)
			fmt.Fprintf(cmd.OutOrStdout(), "%d settings of control groups put back\n", len(result.Written))
			return err
		},
	}
	node.addWriter(cmd.Flags())
	return cmd
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  usage.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version.Of("pinfold-agent"))
			return err
		},
	}
}
