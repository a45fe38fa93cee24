package agent

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	topologyclient "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/generated/clientset/versioned"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/kube/nri"
)

// Options are what an agent works with.
type Options struct {
	control.Config
	// Root is the root directory of the machine: "/", or where it is mounted.
	Root string
	// RunDir is a directory that ends with the machine's uptime.
	RunDir     string
	Client     kubernetes.Interface
	Topologies topologyclient.Interface
	// Kubelet asks the kubelet for its configuration.
	Kubelet func(context.Context) (control.Kubelet, error)
	// StaticPods asks it for the static pods that it runs, by its ids.
	StaticPods func(context.Context) (map[ledger.PodID]types.NamespacedName, error)
	// Socket is the container runtime's for NRI; "" does without.
	Socket string
	// Runtime serves the container runtime until the context ends; [nri.Run] unless
	// given.
	Runtime func(context.Context, nri.Options, nri.Handler) error
	// Listen is where metrics and health are served; "" for nowhere.
	Listen string
	// Secure is nil where everybody who reaches that may read the metrics.
	Secure *Secure
	// Period is how often everything is looked at, and MinInterval how often at most
	// when things change. SampleEvery is how often usage is read.
	Period, MinInterval, SampleEvery time.Duration
	// SampleInterval is the least time from one sample of a container to the next, which
	// are otherwise taken once in its own period. With 0 none are: no quota is raised, and
	// there are no metrics about periods.
	SampleInterval time.Duration
	// APIEvery is how often the Node, the topology object and the kubelet's
	// configuration are looked at, and RetryAfter when that failed; the runtime is
	// tried again after that time, too.
	APIEvery, RetryAfter time.Duration
	// LeaseNamespace is where the agent has its lease, which bears the node's name; with ""
	// it has none. LeaseEvery is how often it renews the lease.
	LeaseNamespace string
	LeaseEvery     time.Duration
	Log            *slog.Logger
	Now            func() time.Time
}

// The defaults of [Options].
const (
	DefaultPeriod      = 15 * time.Second
	DefaultMinInterval = 100 * time.Millisecond
	DefaultSampleEvery = 5 * time.Second
	// DefaultSampleInterval bounds what sampling takes: about 0.1% of a CPU for each
	// container with such a period.
	DefaultSampleInterval = 10 * time.Millisecond
	DefaultAPIEvery       = time.Minute
	DefaultRetryAfter     = 5 * time.Second
	DefaultLeaseEvery     = 10 * time.Second
)

func (o Options) withDefaults() Options {
	for value, otherwise := range map[*time.Duration]time.Duration{
		&o.Period: DefaultPeriod, &o.MinInterval: DefaultMinInterval, &o.SampleEvery: DefaultSampleEvery,
		&o.APIEvery: DefaultAPIEvery, &o.RetryAfter: DefaultRetryAfter, &o.LeaseEvery: DefaultLeaseEvery} {
		if *value == 0 {
			*value = otherwise
		}
	}
	if o.LeaseNamespace != "" {
		o.Lease = o.LeaseNamespace + "/" + o.NodeName
	}
	if o.Root == "" {
		o.Root = "/"
	}
	if o.RunDir == "" {
		o.RunDir = DefaultRunDir(o.Root)
	}
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

// DefaultRunDir is the directory for what lasts as long as the machine is up.
func DefaultRunDir(root string) string { return filepath.Join(root, "run/pinfold") }

// DefaultSocket is where container runtimes serve NRI on a machine. (/var/run, as it is
// usually written, is a link that leads astray when the root is mounted elsewhere.)
func DefaultSocket(root string) string { return filepath.Join(root, "run/nri/nri.sock") }
