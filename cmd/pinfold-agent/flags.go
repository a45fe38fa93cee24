package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	topologyclient "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/generated/clientset/versioned"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"pinfold.dev/pinfold/agent"
	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/cmd/internal/usage"
	"pinfold.dev/pinfold/cmd/internal/version"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/feature"
	"pinfold.dev/pinfold/linux/scx"
)

// nodeFlags are the flags that several commands share.
type nodeFlags struct {
	nodeName, kubeconfig, root, runDir, kubeletCA, leases string
	verbose                                               bool
}

func (f *nodeFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.nodeName, "node-name", os.Getenv("NODE_NAME"), "the node's `NAME` (default: the variable NODE_NAME)")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig `FILE` (default: the pod's service account)")
	flags.StringVar(&f.root, "host-root", "/", "`DIR` where the machine's root directory is mounted")
	flags.StringVar(&f.kubeletCA, "kubelet-ca", "", "`FILE` of certificates that sign the kubelet's; without it the cluster's CA counts, or that the kubelet's socket belongs to root of this machine")
}

// addWriter adds the flags of the commands that write settings.
func (f *nodeFlags) addWriter(flags *pflag.FlagSet) {
	f.add(flags)
	flags.StringVar(&f.runDir, "run-dir", "", "`DIR` for the lock and the kubelet's last known configuration (default: run/pinfold below --host-root)")
	flags.StringVar(&f.leases, "lease-namespace", nodetopology.LeaseNamespace,
		"`NAMESPACE` of the agent's lease, which tells the scheduler that the agent works; empty for no lease")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "log every write")
}

// apply checks the flags and sets the options that they determine.
func (f *nodeFlags) apply(o *agent.Options, stderr io.Writer) error {
	if f.nodeName == "" {
		return usage.Errorf("no node is named: give --node-name, or set NODE_NAME (in a pod: from spec.nodeName)")
	}
	config, err := restConfig(f.kubeconfig)
	if err != nil {
		return err
	}
	compact := rest.CopyConfig(config)
	compact.ContentType = runtime.ContentTypeProtobuf
	compact.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if o.Client, o.Topologies, err = newClients(compact, config); err != nil {
		return err
	}
	kubelet := agent.KubeletClient{Client: o.Client, NodeName: f.nodeName, Config: config, CAFile: f.kubeletCA, Root: f.root}
	o.Kubelet, o.StaticPods = kubelet.Configuration, kubelet.StaticPods
	o.NodeName, o.Root, o.RunDir, o.LeaseNamespace = f.nodeName, f.root, f.runDir, f.leases
	o.Version = version.This().Version
	level := slog.LevelInfo
	if f.verbose {
		level = slog.LevelDebug
	}
	o.Log = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	return nil
}

// newClients returns clients for the built-in resources and for topology objects, which do not
// support protobuf.
func newClients(config, topologyConfig *rest.Config) (kubernetes.Interface, topologyclient.Interface, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("make a client: %w", err)
	}
	topologies, err := topologyclient.NewForConfig(topologyConfig)
	if err != nil {
		return nil, nil, fmt.Errorf("make a client: %w", err)
	}
	return client, topologies, nil
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, usage.Errorf("not running in a pod: name a kubeconfig file with --kubeconfig")
		}
		return config, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, usage.KubeconfigError(err)
	}
	return config, nil
}

// readKeys reads the public keys that verify allocations. Without a file every allocation is
// accepted.
func readKeys(path string, log *slog.Logger) (*api.Keys, error) {
	if path == "" {
		log.Warn("allocations are accepted without a signature, so everybody who may write annotations of pods can take CPUs; give --allocation-keys")
		return nil, nil //nolint:nilnil // accept every allocation
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--allocation-keys: %w", err)
	}
	keys, err := api.ParsePublicKeys(text)
	if err != nil {
		return nil, fmt.Errorf("--allocation-keys %s: %w", path, err)
	}
	return api.NewKeys(keys...), nil
}

// addBurst adds the flags about bursts above the limit.
func addBurst(flags *pflag.FlagSet, c *control.Config) {
	flags.StringVar((*string)(&c.Burst.Mode), "burst-policy", "none", "burst policy of pods that name none: `none|burst|quota|auto`")
	flags.IntVar(&c.Burst.BurstPercent, "burst-percent", 100, "how much of its quota a container may save up, unless its pod says otherwise")
	flags.IntVar(&c.Burst.QuotaPercent, "quota-percent", 300, "how far quota may be raised, in percent of the limit, unless the pod says otherwise")
	flags.IntVar(&c.Burst.QuotaBurstSeconds, "quota-burst-seconds", 60,
		"how long it may stay raised to that, unless the pod says otherwise; -1 for as long as savings last")
	flags.StringVar((*string)(&c.QuotaOwner), "quota-owner", "pinfold", "whose quota applies when another program writes it, too: `pinfold|other`")
}

// checkBurst checks the flags of addBurst.
func checkBurst(c *control.Config) error {
	owners := []control.QuotaOwner{control.OwnerPinfold, control.OwnerOther}
	const maxPercent = 10000
	switch b := &c.Burst; {
	case !slices.Contains(burst.Modes(), b.Mode):
		return usage.Errorf("--burst-policy %q: it must be one of %q", b.Mode, burst.Modes())
	case b.BurstPercent < 1 || b.BurstPercent > maxPercent:
		return usage.Errorf("--burst-percent %d: it must be 1 to %d", b.BurstPercent, maxPercent)
	case b.QuotaPercent < 100 || b.QuotaPercent > maxPercent:
		return usage.Errorf("--quota-percent %d: it must be 100 to %d", b.QuotaPercent, maxPercent)
	case b.QuotaBurstSeconds != burst.NoEnd && b.QuotaBurstSeconds < 1:
		return usage.Errorf("--quota-burst-seconds %d: it must be 1 or more, or -1", b.QuotaBurstSeconds)
	case !slices.Contains(owners, c.QuotaOwner):
		return usage.Errorf("--quota-owner %q: it must be one of %q", c.QuotaOwner, owners)
	}
	return nil
}

// addPartition adds the flag --partition.
func addPartition(flags *pflag.FlagSet, c *control.Config) {
	flags.StringVar((*string)(&c.Partition), "partition", noPartition,
		`kind of cpuset partition that containers with exclusive CPUs become: "none", "root" or "isolated" (cgroup version 2, Linux `+feature.Partitions.Since+`)`)
}

// noPartition is the value of --partition for no partitions.
const noPartition = "none"

// checkPartition checks the flag of addPartition.
func checkPartition(c *control.Config) error {
	switch c.Partition {
	case noPartition:
		c.Partition = cgroup.PartitionMember
	case cgroup.PartitionRoot, cgroup.PartitionIsolated:
	default:
		return usage.Errorf("--partition %q: it must be none, root or isolated", c.Partition)
	}
	return nil
}

// addBatch adds the flags about batch pods.
func addBatch(flags *pflag.FlagSet, c *control.Config, maxWait *time.Duration) {
	flags.String(batchPriority, "none", "how the kernel puts batch pods (class BE) behind all others: none, auto, or some of idle, core-scheduling, sched_ext, bvt, separated by commas")
	flags.DurationVar(maxWait, batchMaxWait, scx.DefaultMaxWait,
		"with sched_ext, a thread of a batch pod waits at most about this long, in spite of the bound and of others on its core, as long as others leave CPUs")
	flags.Int(batchPercent, 0, "batch pods may use this percentage of the shared CPUs, less what everything else uses there; 0 for no bound")
	flags.Float64Var((*float64)(&c.Batch.Floor), "batch-floor", 0.5, "CPUs that all batch pods together may use in any case")
	flags.DurationVar(&c.Batch.Objective, batchObjective, 0,
		"what the containers of online pods (class LS) may wait for CPUs in 100ms, as a 99th percentile; batch pods get less while they wait longer; 0 for no objective")
}

const (
	batchPriority  = "batch-priority"
	batchMaxWait   = "batch-max-wait"
	batchPercent   = "batch-percent"
	batchObjective = "batch-objective"
)

// checkBatch checks the flags of addBatch.
func checkBatch(flags *pflag.FlagSet, c *control.Config, maxWait time.Duration) error {
	const tickLength = 100 * time.Millisecond
	// Threads that have waited are looked for every 50 ms, and the kernel ends a scheduler whose
	// threads wait for 30 s; the agent needs some of that.
	const leastMaxWait, mostMaxWait = 100 * time.Millisecond, 5 * time.Second
	const least = 0.01 // the kernel's minimum of a quota, 1 ms, in a period of 100 ms
	percent, err := flags.GetInt(batchPercent)
	switch {
	case err != nil:
		return err
	case percent < 0 || percent > 100:
		return usage.Errorf("--%s %d: it must be 0 to 100", batchPercent, percent)
	case maxWait < leastMaxWait || maxWait > mostMaxWait:
		return usage.Errorf("--%s %v: it must be %v to %v", batchMaxWait, maxWait, leastMaxWait, mostMaxWait)
	case !(c.Batch.Floor >= least && c.Batch.Floor <= cpuset.MaxCPUs):
		return usage.Errorf("--batch-floor %g: it must be %g to %d", float64(c.Batch.Floor), least, cpuset.MaxCPUs)
	case c.Batch.Objective < 0 || c.Batch.Objective > tickLength:
		return usage.Errorf("--%s %v: it must be 0 to %v", batchObjective, c.Batch.Objective, tickLength)
	case c.Batch.Objective > 0 && percent == 0:
		return usage.Errorf("--%s needs --%s, which it lowers", batchObjective, batchPercent)
	}
	c.Batch.Threshold = quantity.Share(percent) / 100
	text, err := flags.GetString(batchPriority)
	if err == nil {
		c.Priority, err = colocation.ParsePriority(text)
	}
	if err != nil {
		return usage.Errorf("--%s: %w", batchPriority, err)
	}
	return nil
}

// addTrace adds the flag --trace-percent.
func addTrace(flags *pflag.FlagSet, o *agent.Options) {
	flags.Float64Var(&o.TraceShare, "trace-percent", 0,
		"trace each delay of each container's threads, while that uses at most this `PERCENT` of the machine's CPU time; 0 for no tracing (needs root, or CAP_BPF and CAP_PERFMON)")
}

// checkTrace checks the flag of addTrace.
func checkTrace(o *agent.Options) error {
	if !(o.TraceShare >= 0 && o.TraceShare <= 100) {
		return usage.Errorf("--trace-percent %g: it must be 0 to 100", o.TraceShare)
	}
	o.TraceShare /= 100
	return nil
}

// readCeilings reads the file of the ceilings, if one is named. The agent must not start when that
// fails: pods would get more than the administrator allows.
func readCeilings(path string) (ceilings api.Ceilings, err error) {
	if path == "" {
		return ceilings, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return ceilings, fmt.Errorf("--ceilings: %w", err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return ceilings, fmt.Errorf("--ceilings %s: the file is empty: write {} to have only the built-in ceilings", path)
	}
	if ceilings, err = api.ParseCeilings(text); err != nil {
		return ceilings, fmt.Errorf("--ceilings %s: %w", path, err)
	}
	return ceilings, nil
}
