package agent

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/kube/api"
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
	// Kubelet returns the kubelet's configuration.
	Kubelet func(context.Context) (control.Kubelet, error)
	// StaticPods returns the static pods that the kubelet runs, by the kubelet's ids.
	StaticPods func(context.Context) (map[ledger.PodID]types.NamespacedName, error)
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
	// ReadCeilings reads the ceilings again. It may be nil.
	ReadCeilings func() (api.Ceilings, error)
	// Listen is the address of metrics, and HealthListen that of health checks; "" for none.
	Listen, HealthListen string
	// Secure restricts the access to metrics. If it is nil, everybody who reaches the address may
	// read them.
	Secure *Secure
	// Period is the time between rounds when nothing seems to change, and MinInterval the least
	// time between rounds. SampleEvery is the interval at which the load of the CPUs is read.
	Period, MinInterval, SampleEvery time.Duration
	// SampleInterval is the least time between two samples of a container, which is sampled once in
	// each of its periods. 0 disables sampling: no quota is raised, and there are no metrics about
	// periods.
	SampleInterval time.Duration
	// TraceShare is what tracing the delays of containers may use of the machine's CPU time; 0
	// disables it.
	TraceShare float64
	// Contention makes the agent sample who waits for CPUs, and behind whom, if this machine can.
	Contention bool
	// BatchMaxWait is how long a thread of a batch pod with a scheduler of its own waits at most, as
	// long as other pods leave CPUs. The default is [scx.DefaultMaxWait].
	BatchMaxWait time.Duration
	// APIEvery is the interval at which the Node, the topology object and the kubelet's
	// configuration are read. After a failure, these and the container runtime are tried again
	// after RetryAfter.
	APIEvery, RetryAfter time.Duration
	// LeaseNamespace is the namespace of the agent's lease, whose name is the node's; "" for no
	// lease. LeaseEvery is the interval at which the lease is renewed.
	LeaseNamespace string
	LeaseEvery     time.Duration
	// CallLimit is how long a decision about a group waits for a call about its unit to end, from the
	// begin of the call; systemd answers nothing while it reloads.
	CallLimit time.Duration
	// Version is the version of the program, which the lease and the topology carry.
	Version string
	Log     *slog.Logger
	Now     func() time.Time
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
	o.SampleEvery = cmp.Or(o.SampleEvery, DefaultSampleEvery)
	o.BatchMaxWait = cmp.Or(o.BatchMaxWait, scx.DefaultMaxWait)
	o.APIEvery = cmp.Or(o.APIEvery, time.Minute)
	o.RetryAfter = cmp.Or(o.RetryAfter, 5*time.Second)
	o.LeaseEvery = cmp.Or(o.LeaseEvery, 40*time.Second) // 5,000 agents write 125 leases a second
	o.CallLimit = cmp.Or(o.CallLimit, callLimit)
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

// DefaultSocket returns the path of the container runtime's NRI socket. It avoids /var/run, the
// usual name, which is a symbolic link that is wrong if root is not "/".
func DefaultSocket(root string) string { return filepath.Join(root, "run/nri/nri.sock") }
