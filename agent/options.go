package agent

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/internal/filewatch"
	"pinfold.dev/pinfold/kube/dra"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/nri"
	"pinfold.dev/pinfold/linux/scx"
)

// Options are the options of [Run] and [Cleanup].
type Options struct {
	control.Config
	// Root is the directory at which the machine's root directory is mounted.
	Root string
	// RunDir is a directory whose contents last until the machine is shut down.
	RunDir     string
	Client     kubernetes.Interface
	Topologies nodetopology.Client
	// LegacyTopologies lets Cleanup delete what an agent of the first version has left; nil leaves it.
	LegacyTopologies nodetopology.LegacyClient
	// Kubelet returns the configuration of a node's kubelet. The node is nil before it has been read.
	Kubelet func(context.Context, *corev1.Node) (control.Kubelet, error)
	// StaticPods returns the static pods that the kubelet runs, by the kubelet's ids.
	StaticPods func(context.Context, *corev1.Node) (map[ledger.PodID]types.NamespacedName, error)
	// Devices makes the agent a DRA driver: it determines which CPUs make a device. "" is for no
	// driver.
	Devices dra.Grouping
	// KubeletDir is the kubelet's directory, which must have the same name for the agent. CDIDir is
	// where the container runtime looks for CDI devices. The DRA driver needs both.
	KubeletDir, CDIDir string
	// Socket is the container runtime's NRI socket; "" disables NRI.
	Socket string
	// Runtime serves the container runtime until the context ends. The default is [nri.Run].
	Runtime func(context.Context, nri.Options, nri.Handler)
	// Listen is the address of metrics and health checks; "" for none.
	Listen string
	// NoContainerMetrics leaves out the metrics of each container.
	NoContainerMetrics bool
	// Secure restricts the access to metrics. If it is nil, everybody who reaches the address may
	// read them.
	Secure *Secure
	// Period is the time between rounds when nothing seems to change, and MinInterval the least
	// time between rounds. SampleEvery is the interval at which the load of the CPUs is read.
	Period, MinInterval, SampleEvery time.Duration
	// FilesEvery is the interval at which configuration files are read again.
	FilesEvery time.Duration
	files      []file
	// SampleInterval is the least time between two samples of a container, which is sampled once in
	// each of its periods. 0 disables sampling: no quota is raised, and there are no metrics about
	// periods.
	SampleInterval time.Duration
	// TraceShare is what tracing the delays of containers may use of the machine's CPU time; 0
	// disables it.
	TraceShare float64
	// BatchMaxWait is how long a thread of a batch pod with a scheduler of its own waits at most, as
	// long as other pods leave CPUs. The default is [scx.DefaultMaxWait].
	BatchMaxWait time.Duration
	// APIEvery is the interval at which the Node, the topology object and the kubelet's
	// configuration are read. After a failure, these and the container runtime are tried again
	// after RetryAfter; what asks the API server waits longer after each further failure.
	APIEvery, RetryAfter time.Duration
	// LeaseNamespace is the namespace of the agent's lease, whose name is the node's; "" for no
	// lease. LeaseEvery is the interval at which the lease is renewed; 0 for one that grows with the
	// number of leases in the namespace.
	LeaseNamespace string
	LeaseEvery     time.Duration
	// Version is the version of the program, which the lease and the topology carry.
	Version string
	Log     *slog.Logger
	// Level is that of Log, if it can be changed.
	Level *slog.LevelVar
	Now   func() time.Time
}

// The defaults of options that are flags.
const (
	DefaultKubeletDir  = "/var/lib/kubelet"
	DefaultPeriod      = 15 * time.Second
	DefaultSampleEvery = 5 * time.Second
	// DefaultSampleInterval bounds the cost of sampling: about 0.1% of a CPU for each container
	// with a period this short.
	DefaultSampleInterval = 10 * time.Millisecond
)

func (o Options) withDefaults() Options {
	o.Root = cmp.Or(o.Root, "/")
	o.RunDir = cmp.Or(o.RunDir, filepath.Join(o.Root, "run/pinfold"))
	o.KubeletDir = cmp.Or(o.KubeletDir, DefaultKubeletDir)
	o.CDIDir = cmp.Or(o.CDIDir, filepath.Join(o.Root, "run/cdi"))
	o.Period = cmp.Or(o.Period, DefaultPeriod)
	o.MinInterval = cmp.Or(o.MinInterval, 100*time.Millisecond)
	o.FilesEvery = cmp.Or(o.FilesEvery, filewatch.Every)
	o.SampleEvery = cmp.Or(o.SampleEvery, DefaultSampleEvery)
	o.BatchMaxWait = cmp.Or(o.BatchMaxWait, scx.DefaultMaxWait)
	o.APIEvery = cmp.Or(o.APIEvery, time.Minute)
	o.RetryAfter = cmp.Or(o.RetryAfter, 5*time.Second)
	if o.Runtime == nil {
		o.Runtime = nri.Run
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return o
}

// Pauses are longer by up to jitter of them, at random: agents that something brings into step, such
// as a restart of the API server, get out of it. Retries do not pause for longer than about maxRetry.
const (
	jitter   = 0.1
	maxRetry = 30 * time.Second
)

// retries returns the pauses after requests that fail in a row.
func (o *Options) retries() wait.Backoff {
	return wait.Backoff{Duration: o.RetryAfter, Factor: 2, Jitter: 0.5, Steps: math.MaxInt32, Cap: min(maxRetry, o.APIEvery)}
}

// DefaultSocket returns the path of the container runtime's NRI socket. It avoids /var/run, the
// usual name, which is a symbolic link that is wrong if root is not "/".
func DefaultSocket(root string) string { return filepath.Join(root, "run/nri/nri.sock") }
