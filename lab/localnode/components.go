package localnode

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"pinfold.dev/pinfold/kube/scheduler"
	"pinfold.dev/pinfold/lab/supervisor"
)

// The components of a node, in the order of their start.
const (
	Registry   = "registry"
	Containerd = "containerd"
	Kubelet    = "kubelet"
	Agent      = "pinfold-agent"
)

// Names lists the components in the order of their start.
func Names() []string { return []string{Registry, Containerd, Kubelet, Agent} }

// Components returns how the components are run, after Prepare. Each needs those
// before it. The caller says where and with what environment and log.
func (n *Node) Components(credentials Credentials) []supervisor.Spec {
	specs := []supervisor.Spec{
		{
			Name:  Registry,
			Path:  n.options.Executable,
			Args:  []string{"component", Registry, "--listen=" + n.options.Registry, "--programs=" + filepath.Join(n.options.Binaries, imagesDir)},
			Ready: answers("http://" + n.options.Registry + "/v2/"),
		},
		{
			Name:  Containerd,
			Path:  filepath.Join(n.options.Binaries, containerdProgram),
			Args:  []string{"--config", n.layout.path("config", containerdConfigName)},
			Env:   []string{"PATH=" + n.options.Binaries + ":" + os.Getenv("PATH")}, // its shim looks for runc
			Ready: accepts(n.layout.containerdSocket()),
		},
		{
			Name:  Kubelet,
			Path:  filepath.Join(n.options.Binaries, kubeletProgram),
			Args:  n.kubeletFlags(credentials.Kubeconfig),
			Ready: answers("http://" + n.serving(n.ports.health) + "/healthz"),
		},
	}
	if n.options.Agent == "" {
		return specs
	}
	return append(specs, supervisor.Spec{
		Name:  Agent,
		Path:  n.options.Agent,
		Args:  n.agentFlags(credentials),
		Ready: answers("http://" + n.serving(n.ports.agent) + "/readyz"),
	})
}

// serving is a host:port on the node's address.
func (n *Node) serving(port int) string {
	return netip.AddrPortFrom(n.network.node, uint16(port)).String()
}

// minShared is how many CPUs the scheduler keeps shared when its configuration does
// not say.
const minShared = scheduler.DefaultMinSharedCPUs

func (n *Node) agentFlags(credentials Credentials) []string {
	return []string{
		"run",
		"--node-name=" + Name,
		"--kubeconfig=" + credentials.AgentKubeconfig,
		"--kubelet-ca=" + credentials.ClientCA,
		"--run-dir=" + n.layout.path("agent"),
		"--listen=" + n.serving(n.ports.agent),
		"--nri-socket=" + n.layout.nriSocket(),
		fmt.Sprintf("--min-shared-cpus=%d", minShared),
	}
}

// probeTimeout bounds one question whether a component is ready.
const probeTimeout = 2 * time.Second

// answers asks a component by HTTP.
func answers(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return fmt.Errorf("ask %s: %w", url, err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return fmt.Errorf("ask %s: %w", url, err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("ask %s: %s", url, response.Status)
		}
		return nil
	}
}

// accepts dials a Unix socket.
func accepts(path string) func(context.Context) error {
	return func(ctx context.Context) error {
		var dialer net.Dialer
		connection, err := dialer.DialContext(ctx, "unix", path)
		if err != nil {
			return fmt.Errorf("dial %s: %w", path, err)
		}
		return connection.Close()
	}
}
