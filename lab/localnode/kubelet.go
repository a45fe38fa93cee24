package localnode

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// ports are where the kubelet and the agent serve, on the node's address.
type ports struct{ kubelet, health, agent int }

// choosePorts takes three that are free now. The address is the node's own, so only
// somebody who listens on all addresses could take one in between.
func choosePorts(address netip.Addr) (ports, error) {
	var free [3]int
	for i := range free {
		listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(address, 0)))
		if err != nil {
			return ports{}, fmt.Errorf("choose a port of the node: %w", err)
		}
		defer listener.Close()
		free[i] = int(netip.MustParseAddrPort(listener.Addr().String()).Port())
	}
	return ports{kubelet: free[0], health: free[1], agent: free[2]}, nil
}

// resolverFile is what pods get as their resolver's configuration, where it exists.
const resolverFile = "/etc/resolv.conf"

// kubeletConfig is a KubeletConfiguration.
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
		"healthzPort":        n.ports.health,
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": credentials.ClientCA},
		},
		"authorization":            map[string]any{"mode": "Webhook"},
		"tlsCertFile":              credentials.Certificate,
		"tlsPrivateKeyFile":        credentials.Key,
		"containerRuntimeEndpoint": "unix://" + n.layout.containerdSocket(),
		"cgroupDriver":             "cgroupfs",
		"failCgroupV1":             false,
		"failSwapOn":               false,
		// CPUs are the agent's business.
		"cpuManagerPolicy": "none",
		// No packet filters: nothing here needs the kubelet's.
		"makeIPTablesUtilChains": false,
		// Lowering it needs CAP_SYS_RESOURCE.
		"oomScoreAdj":     0,
		"podLogsDir":      n.layout.path("logs"),
		"staticPodPath":   n.layout.path("static-pods"),
		"volumePluginDir": n.layout.path("kubelet", "volume-plugins"),
		"resolvConf":      resolver,
		// A disk that is nearly full is no reason to evict the pods of an experiment,
		// nor to remove images.
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
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(n.options.Labels)) {
		labels = append(labels, key+"="+n.options.Labels[key])
	}
	return []string{
		"--config=" + n.layout.path("config", kubeletConfigName),
		"--kubeconfig=" + kubeconfig,
		"--root-dir=" + n.layout.path("kubelet"),
		"--cert-dir=" + n.layout.path("kubelet", "pki"),
		"--hostname-override=" + Name,
		"--node-ip=" + n.network.node.String(),
		"--node-labels=" + strings.Join(labels, ","),
	}
}
