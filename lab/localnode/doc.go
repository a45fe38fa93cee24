// Package localnode makes this machine a node of a local cluster: the kubelet,
// containerd with runc, a network for pods, and a registry that has the pods' images.
// It needs root, since it makes control groups, mounts and network namespaces.
//
// # What it touches
//
// Nearly everything is below two directories of its own: one in the cluster's data
// directory, and one in /run with the sockets, whose paths may have 107 bytes only
// (unix(7)). Besides, the components change the machine in ways that no flag prevents:
//
//   - the groups kubepods of the control group hierarchies,
//   - sysctls (see sysctl.go),
//   - directories such as /var/lib/cni (see places.go),
//   - an address on the loopback interface, on which the kubelet serves, and one pair
//     of network interfaces per pod (see network.go),
//   - mounts, and the processes of the containers.
//
// [Node.Prepare] writes down how the machine is before any of it changes, and
// [Restore] puts that back. Restore works from what is written down and from what it
// finds, never from memory, so that it can follow a kill -9 or a crash of anything,
// any number of times. What is written down holds values only: which sysctls, directories
// and groups these belong to is fixed in this package.
//
// Restore ends and removes only what it knows to be this node's: processes in the groups
// of its containers, those of the node's programs that were started with paths of its
// directories, and files by their names and contents. Others may have come since a crash.
// When there is a sign of another kubelet, what that shares with the node stays.
//
// A machine that has a kubepods group already has a kubelet, or had one: [New]
// refuses it.
//
// # Network
//
// Pods get addresses of a private /24 that nothing on the machine uses. Each has a
// point-to-point link to the machine (CNI's ptp plugin), without a bridge, without
// packet filters and without translation: the machine and its pods reach each other,
// and nobody else is involved. Services have no addresses that work: there is no
// kube-proxy.
//
// The kubelet does not accept a node address in 127.0.0.0/8. Its address is the last
// of the /24, on the loopback interface, so it serves this machine only.
package localnode
