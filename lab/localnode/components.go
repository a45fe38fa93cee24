package localnode

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"pinfold.dev/pinfold/lab/supervisor"
)

// The components of a node, in the order of their start.
const (
	Registry   = "registry"
	Containerd = "containerd"
	Kubelet    = "kubelet"
)

// Names lists the components in the order of their start.
func Names() []string { return []string{Registry, Containerd, Kubelet} }

// Components returns how the components are run, after Prepare. Each needs those
// before it. The caller says where and with what environment and log.
func (n *Node) Components(credentials Credentials) []supervisor.Spec {
	health := fmt.Sprintf("http://%s/healthz", net.JoinHostPort(n.network.node.String(), fmt.Sprint(n.ports.health)))
	return []supervisor.Spec{
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
			Ready: answers(health),
		},
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
