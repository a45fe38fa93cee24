package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"

	"pinfold.dev/pinfold/agent"
	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/agent/control/allocate"
	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/dra"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/feature"
	"pinfold.dev/pinfold/linux/sampler"
	"pinfold.dev/pinfold/linux/scx"
)

// runOptions is what the flags of run request.
type runOptions struct {
	node         nodeOptions
	mode         string
	onFailure    string
	claims       dra.Grouping
	agent        agent.Options
	ceilings     string // a file
	secure       bool
	certificate  agent.Secure
	batchPercent float64
	tracePercent float64
}

// noClaims is the value of --claims for no DRA driver.
const noClaims dra.Grouping = "none"

func newRun() *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{Use: "run [flags]", Short: "Run the agent", Args: frame.NoArguments,
		Long: `Run the agent until SIGTERM or ctrl-C. It needs root, and the rights of its
service account at the API server. "pinfold-agent doctor" says whether this node
meets its requirements.`,
		Example: `  pinfold-agent run --node-name worker-1 --kubeconfig agent.conf
  pinfold-agent run --burst-policy auto --batch-percent 65 -v`,
	}
	flags := cmd.Flags()
	o.node.addWriter(flags)
	frame.OneOf(flags, &o.mode, "mode", "enforce decisions, or only observe: give back what an earlier agent has set, and say what would be written (status, metrics)", agent.Enforce, agent.Observe)
	frame.OneOf(flags, &o.onFailure, "on-failure", "where pods run that ask for CPUs and are allocated none: in the shared CPUs, or not at all", "shared", "refuse")
	frame.OneOf(flags, &o.agent.Repack, "repack", "how much better its CPUs must get for a running pod to move: designs of core, NUMA nodes or split cores; also last-level caches; also CPUs of NUMA nodes other than its memory's",
		allocate.RepackNone, allocate.RepackCores, allocate.RepackLLCs, allocate.RepackNUMA)
	frame.OneOf(flags, &o.claims, "claims", "serve resource claims for CPUs (DRA driver "+dra.Driver+"), with one device for each NUMA node, package, or the machine",
		noClaims, dra.ByNUMA, dra.ByPackage, dra.ByMachine)
	flags.StringVar(&o.agent.KubeletDir, "kubelet-dir", agent.DefaultKubeletDir, "the kubelet's `DIR`, for --claims: it must have the same name here and for the kubelet")
	flags.StringVar(&o.agent.CDIDir, "cdi-dir", "", "`DIR` where the container runtime looks for CDI devices, for --claims (default: run/cdi below --host-root)")
	o.addBurst(flags)
	o.addBatch(flags)
	frame.CompleteWords(cmd, "batch-priority", append([]colocation.Mechanism{"none", "auto"}, colocation.Mechanisms()...)...)
	frame.OneOf(flags, &o.agent.Partition, "partition", "kind of cpuset partition that containers with exclusive CPUs become (cgroup version 2, Linux "+feature.Partitions.Since+")",
		noPartition, cgroup.PartitionRoot, cgroup.PartitionIsolated)
	frame.PercentVar(flags, &o.tracePercent, "trace-percent",
		"trace each delay of each container's threads, while that uses at most this PERCENT of the machine's CPU time; 0 for no tracing (needs root, or CAP_BPF and CAP_PERFMON)")
	flags.BoolVar(&o.agent.Contention, "contention", true, "sample which containers wait for CPUs and behind whom, if the kernel and the rights of this process allow it (root, or CAP_BPF and CAP_PERFMON)")
	flags.StringVar(&o.ceilings, "ceilings", "", "YAML `FILE` that limits what pods get by their annotations; read again in each round, and while it cannot be read what it had applies")
	frame.CompleteExtensions(cmd, "ceilings", "yaml", "yml", "json")
	flags.StringVar(&o.agent.Listen, "listen", "127.0.0.1:9652", "`ADDRESS` where /metrics is served; \"\" for nowhere")
	flags.StringVar(&o.agent.HealthListen, "health-listen", "127.0.0.1:9653", "`ADDRESS` where /healthz and /readyz are served without TLS; \"\" for nowhere")
	flags.BoolVar(&o.secure, "metrics-secure", false, "serve over TLS, and only to clients that the API server allows to get the path: /metrics, and profiles of the agent in /debug/pprof/")
	flags.StringVar(&o.certificate.CertFile, "tls-cert-file", "", "`FILE` with the server's certificate, read again when it changes (default: self-signed)")
	flags.StringVar(&o.certificate.KeyFile, "tls-private-key-file", "", "`FILE` with the key of --tls-cert-file")
	flags.StringVar(&o.agent.Socket, "nri-socket", "", "the container runtime's NRI socket, a `PATH`; empty disables NRI (default: run/nri/nri.sock below --host-root)")
	flags.IntVar(&o.agent.MinShared, "min-shared-cpus", api.DefaultMinSharedCPUs, "`N` CPUs always stay shared, as in the scheduler's minSharedCPUs")
	flags.DurationVar(&o.agent.Period, "period", agent.DefaultPeriod, "check everything every `TIME` when nothing seems to change")
	flags.DurationVar(&o.agent.SampleEvery, "sample", agent.DefaultSampleEvery, "read the load of the CPUs every `TIME`, while core sets follow it")
	flags.DurationVar(&o.agent.SampleInterval, "sample-interval", agent.DefaultSampleInterval,
		"least `TIME` between two samples of a container, which is sampled once in each of its periods, or less often in a pod with more than a hundred of them; 0 disables sampling: no quota is raised then")
	cmd.RunE = o.run
	return cmd
}

// noPartition is the value of --partition for no partitions.
const noPartition = "none"

// addBurst adds the flags about bursts above the limit.
func (o *runOptions) addBurst(flags *pflag.FlagSet) {
	c := &o.agent.Config
	frame.OneOf(flags, &c.Burst.Mode, "burst-policy", "burst policy of pods that name none", burst.Modes()...)
	c.Burst.BurstPercent, c.Burst.QuotaPercent = 100, 300
	frame.PercentVar(flags, &c.Burst.BurstPercent, "burst-percent", "a container may save up PERCENT of its quota, unless its pod says otherwise")
	frame.PercentVar(flags, &c.Burst.QuotaPercent, "quota-percent", "quota may be raised to PERCENT of the limit, unless the pod says otherwise")
	flags.IntVar(&c.Burst.QuotaBurstSeconds, "quota-burst-seconds", 60,
		"full savings last for `SECONDS` while quota is raised to --quota-percent, unless the pod says otherwise; -1 for an hour")
	frame.OneOf(flags, &c.QuotaOwner, "quota-owner", "whose values apply when another program changes quota, period or burst: pinfold restores the agent's, other leaves the changed ones", control.OwnerPinfold, control.OwnerOther)
}

// addBatch adds the flags about batch pods.
func (o *runOptions) addBatch(flags *pflag.FlagSet) {
	c := &o.agent.Config
	frame.Var(flags, &c.Priority, "batch-priority", "PRIORITY", "how the kernel puts batch pods (class BE) behind all others: none, auto, idle, core-scheduling, idle,core-scheduling, sched_ext (includes idle) or bvt", colocation.ParsePriority)
	flags.DurationVar(&o.agent.BatchMaxWait, "batch-max-wait", scx.DefaultMaxWait,
		"with sched_ext, a thread of a batch pod waits at most about this `TIME`, in spite of the bound and of others on its core, as long as others leave CPUs")
	frame.PercentVar(flags, &o.batchPercent, "batch-percent", "batch pods may use this PERCENT of the shared CPUs, less what everything else uses there; 0 for no bound")
	c.Batch.Floor = 0.5
	frame.Var(flags, &c.Batch.Floor, "batch-floor", "CPUS", "CPUs that all batch pods together may use in any case", func(text string) (quantity.CPUs, error) {
		amount, err := frame.ParseAmount(text)
		return quantity.CPUs(amount.CPUs()), err
	})
	flags.DurationVar(&c.Batch.Objective, "batch-objective", 0,
		"the `TIME` that containers of online pods (class LS) may wait for CPUs in 100ms, as a 99th percentile; batch pods get less while they wait longer; 0 for no objective")
}

// check rejects values that are wrong on every machine.
func (o *runOptions) check(flags *pflag.FlagSet) error {
	const (
		maxPercent = 10000
		tickLength = 100 * time.Millisecond
		// Threads that have waited are looked for every 50 ms, and the kernel ends a scheduler
		// whose threads wait for 30 s; the agent needs some of that.
		minBatchWait, maxBatchWait = 100 * time.Millisecond, 5 * time.Second
		minFloor                   = 0.01 // the kernel's minimum of a quota, 1 ms, in a period of 100 ms
	)
	a, b := &o.agent, &o.agent.Burst
	switch {
	case a.MinShared < 0 || a.Period <= 0 || a.SampleEvery <= 0:
		return frame.Usagef("--min-shared-cpus must not be negative, and --period and --sample must be more than 0")
	case (o.certificate.CertFile == "") != (o.certificate.KeyFile == "") || o.certificate.CertFile != "" && !o.secure:
		return frame.Usagef("--tls-cert-file and --tls-private-key-file go together, and with --metrics-secure")
	case b.BurstPercent < 1 || b.BurstPercent > maxPercent:
		return frame.Usagef("--burst-percent %d: it must be 1 to %d", b.BurstPercent, maxPercent)
	case b.QuotaPercent < 100 || b.QuotaPercent > maxPercent:
		return frame.Usagef("--quota-percent %d: it must be 100 to %d", b.QuotaPercent, maxPercent)
	case b.QuotaBurstSeconds != burst.NoEnd && b.QuotaBurstSeconds < 1:
		return frame.Usagef("--quota-burst-seconds %d: it must be 1 or more, or -1", b.QuotaBurstSeconds)
	case o.batchPercent > 100:
		return frame.Usagef("--batch-percent %v: it must be 0 to 100", o.batchPercent)
	case a.BatchMaxWait < minBatchWait || a.BatchMaxWait > maxBatchWait:
		return frame.Usagef("--batch-max-wait %v: it must be %v to %v", a.BatchMaxWait, minBatchWait, maxBatchWait)
	case a.Batch.Floor < minFloor || a.Batch.Floor > cpuset.MaxCPUs:
		return frame.Usagef("--batch-floor %g: it must be %g to %d", float64(a.Batch.Floor), minFloor, cpuset.MaxCPUs)
	case a.Batch.Objective < 0 || a.Batch.Objective > tickLength:
		return frame.Usagef("--batch-objective %v: it must be 0 to %v", a.Batch.Objective, tickLength)
	case a.Batch.Objective > 0 && o.batchPercent == 0:
		return frame.Usagef("--batch-objective needs --batch-percent, which it lowers")
	case o.tracePercent > 100:
		return frame.Usagef("--trace-percent %g: it must be 0 to 100", o.tracePercent)
	}
	if !a.Priority.Wants(colocation.SchedExt) && flags.Changed("batch-max-wait") {
		return frame.Usagef("--batch-max-wait has no effect without --batch-priority sched_ext: give both")
	}
	if err := frame.Needs(flags, "batch-percent", "batch-floor", "batch-objective"); err != nil || a.SampleInterval == 0 {
		return err
	}
	if err := sampler.CheckInterval(a.SampleInterval); err != nil {
		return frame.Usagef("--sample-interval: %w; 0 turns sampling off", err)
	}
	return nil
}

func (o *runOptions) run(cmd *cobra.Command, _ []string) (err error) {
	if err := o.check(cmd.Flags()); err != nil {
		return err
	}
	if o.agent.Repack != allocate.RepackNone && o.agent.Partition == cgroup.PartitionIsolated {
		return frame.Usagef("--repack does not go with --partition=isolated, where the kernel does not spread a pod's threads over its new CPUs: choose one of them")
	}
	if o.claims != noClaims && o.mode == agent.Observe {
		return frame.Usagef("--claims needs --mode=enforce: an agent that observes allocates no CPUs")
	}
	a := &o.agent
	if o.onFailure == "refuse" && a.Socket == "" && cmd.Flags().Changed("nri-socket") {
		return frame.Usagef("--on-failure=refuse needs --nri-socket: without NRI the agent cannot keep a container from starting")
	}
	if a.Burst.Mode == burst.Quota && a.SampleInterval == 0 {
		return frame.Usagef("--burst-policy=quota does not go with --sample-interval=0: without sampling no quota is raised")
	}
	if err := o.node.apply(a, cmd.ErrOrStderr()); err != nil {
		return err
	}
	if o.claims != noClaims {
		a.Devices = o.claims
	}
	a.Observe = o.mode == agent.Observe
	a.Refuses = o.onFailure == "refuse"
	a.Batch.Threshold, a.TraceShare = quantity.Share(o.batchPercent/100), o.tracePercent/100
	if a.Partition == noPartition {
		a.Partition = cgroup.PartitionMember
	}
	if o.secure {
		config, err := restConfig(o.node.kubeconfig)
		if err != nil {
			return err
		}
		if o.certificate.Reviews, err = kubernetes.NewForConfig(config); err != nil {
			return fmt.Errorf("make a client: %w", err)
		}
		a.Secure = &o.certificate
	}
	if !cmd.Flags().Changed("nri-socket") {
		a.Socket = agent.DefaultSocket(a.Root)
	}
	if o.ceilings != "" {
		a.ReadCeilings = func() (api.Ceilings, error) { return readCeilings(o.ceilings) }
		if a.Ceilings, err = a.ReadCeilings(); err != nil {
			return err
		}
	}
	return agent.Run(cmd.Context(), *a)
}
