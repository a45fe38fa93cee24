package localnode

import (
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/local/supervisor"
)

// The components of a node, in the order of their start.
const (
	Registry   = "registry"
	Containerd = "containerd"
	Kubelet    = "kubelet"
	Agent      = "pinfold-agent"
)

// Components returns the specifications of the components, after Prepare. Each component needs
// those before it. The caller adds the working directory, the environment and the log.
func (n *Node) Components(credentials Credentials) []supervisor.Spec {
	registry := []string{"component", Registry, "--listen=" + n.options.Registry, "--programs=" + filepath.Join(n.options.Binaries, imagesDir)}
	for _, dir := range n.options.Images {
		registry = append(registry, "--images="+dir)
	}
	specs := []supervisor.Spec{
		{
			Name:  Registry,
			Path:  n.options.Executable,
			Args:  registry,
			Ready: supervisor.Answers(http.DefaultClient, "http://"+n.options.Registry+"/v2/"),
		},
		{
			Name:  Containerd,
			Path:  filepath.Join(n.options.Binaries, containerdProgram),
			Args:  []string{"--config", n.layout.path("config/containerd.toml")},
			Env:   []string{"PATH=" + n.options.Binaries + ":" + os.Getenv("PATH")}, // the shim finds runc there
			Ready: supervisor.Accepts(n.layout.containerdSocket()),
		},
		{
			Name:  Kubelet,
			Path:  filepath.Join(n.options.Binaries, kubeletProgram),
			Args:  n.kubeletFlags(credentials.Kubeconfig),
			Ready: supervisor.Answers(http.DefaultClient, "http://"+n.serving(n.ports.kubeletHealth)+"/healthz"),
		},
	}
	if n.options.Agent == "" {
		return specs
	}
	return append(specs, supervisor.Spec{
		Name:  Agent,
		Path:  n.options.Agent,
		Args:  n.agentFlags(credentials),
		Ready: supervisor.Answers(http.DefaultClient, "http://"+n.serving(n.ports.health)+"/readyz"),
	})
}

// serving returns host:port for a port on the node's address.
func (n *Node) serving(port int) string {
	return netip.AddrPortFrom(n.network.node, uint16(port)).String()
}

// AgentMetrics returns host:port of the agent's metrics.
func (n *Node) AgentMetrics() string {
	return netip.AddrPortFrom(metricsAddress, uint16(n.ports.metrics)).String()
}

func (n *Node) agentFlags(credentials Credentials) []string {
	return append([]string{
		"run",
		"--node-name=" + Name,
		"--kubeconfig=" + credentials.AgentKubeconfig,
		"--kubelet-ca=" + credentials.ClientCA,
		"--run-dir=" + n.layout.path("agent"),
		"--listen=" + n.AgentMetrics(),
		"--health-listen=" + n.serving(n.ports.health),
		"--nri-socket=" + n.layout.nriSocket(),
		// As the scheduler, whose configuration does not set it by default.
		fmt.Sprintf("--min-shared-cpus=%d", api.DefaultMinSharedCPUs),
	}, n.options.AgentFlags...)
}
