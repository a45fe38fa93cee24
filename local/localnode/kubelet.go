package localnode

import (
	"fmt"
	"net"
	"net/netip"
)

// ports are the ports of kubelet and agent on the node's address, and of metrics on metricsAddress.
type ports struct{ kubelet, kubeletHealth, metrics, health int }

// metricsAddress is where the agent serves its metrics. Pods do not reach it, as they reach the node's.
var metricsAddress = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// choosePorts returns free ports. Those of the node's address only a program that listens on all
// addresses could take before the components do, because the address belongs to the node.
func choosePorts(node netip.Addr) (ports, error) {
	var free [4]int
	for i, address := range []netip.Addr{node, node, node, metricsAddress} {
		listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(address, 0)))
		if err != nil {
			return ports{}, fmt.Errorf("choose a port of the node: %w", err)
		}
		defer listener.Close()
		free[i] = int(netip.MustParseAddrPort(listener.Addr().String()).Port())
	}
	return ports{kubelet: free[0], kubeletHealth: free[1], health: free[2], metrics: free[3]}, nil
}

func (n *Node) kubeletFlags(kubeconfig string) []string {
	return []string{
		"--config=" + n.layout.path("config/kubelet.yaml"),
		"--kubeconfig=" + kubeconfig,
		"--root-dir=" + n.layout.path("kubelet"),
		"--cert-dir=" + n.layout.path("kubelet", "pki"),
		"--hostname-override=" + Name,
		"--node-ip=" + n.network.node.String(),
	}
}
