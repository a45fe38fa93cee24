package localnode

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"sigs.k8s.io/yaml"
)

// ports are the ports of kubelet and agent on the node's address.
type ports struct{ kubelet, kubeletHealth, metrics, health int }

// choosePorts returns free ports. Only a program that listens on all addresses could take one
// before the components do, because the address belongs to the node.
func choosePorts(address netip.Addr) (ports, error) {
	var free [4]int
	for i := range free {
		listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(address, 0)))
		if err != nil {
			return ports{}, fmt.Errorf("choose a port of the node: %w", err)
		}
		defer listener.Close()
		free[i] = int(netip.MustParseAddrPort(listener.Addr().String()).Port())
	}
	return ports{kubelet: free[0], kubeletHealth: free[1], metrics: free[2], health: free[3]}, nil
}

// resolverFile is the resolver configuration that pods get, if it exists.
const resolverFile = "/etc/resolv.conf"

// kubeletConfig returns a KubeletConfiguration.
func (n *Node) kubeletConfig(credentials Credentials) ([]byte, error) {
	resolver := resolverFile
	if _, err := os.Stat(resolver); err != nil {
		resolver = ""
	}
	data, err := yaml.Marshal(map[string]any{
		"apiVersion":         "kubelet.config.k8s.io/v1beta1",
		"kind":               "KubeletConfiguration",
		"address":            n.network.node.String(),
		"port":               n.ports.kubelet,
		"healthzBindAddress": n.network.node.String(),
		"healthzPort":        n.ports.kubeletHealth,
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": credentials.ClientCA},
		},
		"authorization":            map[string]any{"mode": "Webhook"},
		"tlsCertFile":              credentials.Certificate,
		"tlsPrivateKeyFile":        credentials.Key,
		"containerRuntimeEndpoint": "unix://" + n.layout.containerdSocket(),
		"cgroupDriver":             n.options.driver().String(),
		"featureGates":             n.options.FeatureGates,
		"failCgroupV1":             false,
		"failSwapOn":               false,
		// The agent assigns CPUs.
		"cpuManagerPolicy": "none",
		// No packet filters are needed.
		"makeIPTablesUtilChains": false,
		// Lowering it needs CAP_SYS_RESOURCE.
		"oomScoreAdj":     0,
		"podLogsDir":      n.layout.path("logs"),
		"staticPodPath":   n.layout.path("static-pods"),
		"volumePluginDir": n.layout.path("kubelet", "volume-plugins"),
		"resolvConf":      resolver,
		// A nearly full disk must not evict the pods of an experiment or remove images.
		"evictionHard": map[string]string{
			"memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
			"imagefs.available": "0%", "imagefs.inodesFree": "0%",
		},
		"imageGCHighThresholdPercent": 100,
	})
	if err != nil {
		return nil, fmt.Errorf("encode the kubelet's configuration: %w", err)
	}
	return data, nil
}

func (n *Node) kubeletFlags(kubeconfig string) []string {
	return []string{
		"--config=" + n.layout.path("config", kubeletConfigName),
		"--kubeconfig=" + kubeconfig,
		"--root-dir=" + n.layout.path("kubelet"),
		"--cert-dir=" + n.layout.path("kubelet", "pki"),
		"--hostname-override=" + Name,
		"--node-ip=" + n.network.node.String(),
	}
}
