package localnode

import (
	"fmt"
	"net"
	"net/netip"
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
