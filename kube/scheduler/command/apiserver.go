package command

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/versions"
)

const (
	// Settle is how long the API server must have had another version before the scheduler starts
	// again as that one. It exceeds the time in which an upgrade replaces one server of several by
	// another.
	Settle = 5 * time.Minute
	// answersToSettle is the number of answers in that time.
	answersToSettle = 10
	// answerTimeout limits one question to the API server.
	answerTimeout = 5 * time.Second
	// longestPause limits the pause between attempts to reach an API server that does not answer.
	longestPause = 10 * time.Second
	// answers is how often the API server is asked at the start. While a control plane is upgraded,
	// servers of two versions have one address, and each new connection may reach another one.
	answers = 3
)

// apiServer asks the API server for its version, each time over a new connection.
type apiServer struct {
	discovery *discovery.DiscoveryClient
	forget    func() // closes the connection
}

// newAPIServer returns the API server that kube-scheduler will use with these options.
func newAPIServer(o *options.Options) (*apiServer, error) {
	kubeconfig := o.Deprecated.Kubeconfig
	if o.ConfigFile != "" { // kube-scheduler ignores --kubeconfig then
		var err error
		if kubeconfig, err = readKubeconfigPath(o); err != nil {
			return nil, err
		}
	}
	config, err := clientcmd.BuildConfigFromFlags(o.Master, kubeconfig)
	if err != nil {
		return nil, err
	}
	config.Timeout = answerTimeout
	config.Dial = (&net.Dialer{}).DialContext // keeps the connection apart from those of other clients
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	asking, err := discovery.NewDiscoveryClientForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return &apiServer{asking, func() { utilnet.CloseIdleConnectionsFor(client.Transport) }}, nil
}

// readKubeconfigPath returns the kubeconfig that the configuration file names. kube-scheduler reads
// the file again, when its version and so its defaults are known. The file may be a pipe, so it
// gets a copy.
func readKubeconfigPath(o *options.Options) (string, error) {
	text, err := os.ReadFile(o.ConfigFile)
	if err != nil {
		return "", fmt.Errorf("read the scheduler's configuration: %w", err)
	}
	var config struct {
		ClientConnection struct {
			Kubeconfig string `json:"kubeconfig"`
		} `json:"clientConnection"`
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return "", fmt.Errorf("read the scheduler's configuration, %s: %w", o.ConfigFile, err)
	}
	o.ConfigFile, err = MemoryFile(text)
	return config.ClientConnection.Kubeconfig, err
}

// MemoryFile returns the path of a file with this text that exists in memory until the process
// ends. It needs no writable directory, and can be read any number of times.
func MemoryFile(text []byte) (path string, err error) {
	// A plain descriptor: an os.File would be closed when it is garbage collected.
	file, err := unix.MemfdCreate("scheduler.yaml", unix.MFD_CLOEXEC)
	if err != nil {
		return "", os.NewSyscallError("memfd_create", err)
	}
	path = fmt.Sprintf("/proc/self/fd/%d", file)
	return path, os.WriteFile(path, text, 0)
}

// version returns one answer.
func (a *apiServer) version(ctx context.Context) (*version.Version, error) {
	defer a.forget()
	info, err := a.discovery.ServerVersionWithContext(ctx)
	if err != nil {
		return nil, err
	}
	return versions.Of(info)
}

// lowest returns the lowest version among several answers. Newer servers have the APIs of older
// ones.
func (a *apiServer) lowest(ctx context.Context) (lowest *version.Version, err error) {
	for range answers {
		v, err := a.version(ctx)
		if err != nil {
			return nil, err
		}
		if lowest == nil || v.LessThan(lowest) {
			lowest = v
		}
	}
	return lowest, nil
}

// await returns the version of the API server as soon as it answers.
func (a *apiServer) await(ctx context.Context) (*version.Version, error) {
	for pause := time.Second; ; pause = min(2*pause, longestPause) {
		v, err := a.lowest(ctx)
		if err == nil {
			return v, nil
		}
		klog.ErrorS(err, "Cannot ask the API server for its version, as which this scheduler is to run. With --emulated-version it does not ask", "retryAfter", pause)
		if !sleep.For(ctx, pause) {
			return nil, fmt.Errorf("ask the API server for its version: %w", context.Cause(ctx))
		}
	}
}

// supported returns an error that says what to do if the scheduler cannot run as the version of its
// API server.
func supported(v *version.Version) error {
	err := versions.Check(v)
	if err == nil {
		return nil
	}
	remedy := "use a release of Pinfold for that version"
	if next := versions.Newest().AddMinor(1); v.EqualTo(next) {
		// A scheduler may be older than its API server by a minor version (Kubernetes' policy on skew).
		remedy += fmt.Sprintf(", or until there is one --emulated-version=%s", versions.Newest())
	}
	return fmt.Errorf("the API server: %w; %s", err, remedy)
}

// change finds out that the API server has another version for good. Servers of two versions may
// have one address while a control plane is upgraded, which takes a while and may be reverted, so
// one answer says little.
type change struct {
	running *version.Version // as which the scheduler runs
	settle  time.Duration    // for which all answers must be others

	since  time.Time        // of the first of these answers
	latest *version.Version // answer, nil if it was running
}

// see takes an answer. It reports whether the scheduler has to start again.
func (c *change) see(v *version.Version, now time.Time) bool {
	switch {
	case v.EqualTo(c.running):
		c.latest = nil
		return false
	case c.latest == nil:
		c.since = now
	}
	unsupported := supported(v)
	if c.latest == nil || !v.EqualTo(c.latest) {
		klog.InfoS("The API server has another version than that as which this scheduler runs", "server", v, "runsAs", c.running)
		if unsupported != nil {
			klog.ErrorS(unsupported, "This scheduler continues, but could not be started again")
		}
	}
	c.latest = v
	return now.Sub(c.since) >= c.settle && unsupported == nil
}

// watch returns when the scheduler has to start again as another version, or ctx has ended.
func (a *apiServer) watch(ctx context.Context, running *version.Version, settle time.Duration) {
	c := change{running: running, settle: settle}
	for sleep.For(ctx, settle/answersToSettle) {
		v, err := a.version(ctx)
		if err == nil && c.see(v, time.Now()) {
			klog.InfoS("This scheduler ends, so that it is started again as the version of its API server", "server", v, "runsAs", running)
			return
		}
	}
}
