// Package localnode makes this machine a real node of a local cluster. It runs the kubelet,
// containerd with runc, a pod network, and a registry with the pods' images.
//
//	node, err := localnode.New(options)
//	err = node.Prepare(credentials)          // records the state of the machine, then changes it
//	err = localnode.Restore(dir, logger)     // restores that state
//
// It needs root, because it creates cgroups, mounts and network namespaces.
//
// # Changes to the machine
//
// Nearly everything is below two directories: one in the cluster's data directory, and one in /run
// with the sockets, whose paths are limited to 107 bytes (unix(7)). In addition, the components
// make changes that no flag prevents:
//
//   - the groups kubepods of the cgroup hierarchies,
//   - sysctls (see sysctl.go),
//   - directories such as /var/lib/cni (see places.go),
//   - an address on the loopback interface, on which the kubelet serves, and one pair of network
//     interfaces per pod (see network.go),
//   - mounts, and the processes of the containers.
//
// [Node.Prepare] records the state of the machine before anything changes, and [Restore] restores
// it. Restore uses only that record and what it finds, so it works after a kill -9 or a crash of
// any component, any number of times. The record holds values only; this package fixes which
// sysctls, directories and groups they apply to.
//
// Restore ends and removes only what it can identify as this node's: processes in the groups of its
// containers, the node's programs that were started with paths of its directories, and files by
// name and content. After a crash, another kubelet may have been started. If there is a sign of
// one, everything that it shares with this node is kept.
//
// [New] refuses a machine that has a kubepods group, because it has or had a kubelet.
//
// # Network
//
// Pods get addresses of a private /24 that is unused on the machine. Each pod has a point-to-point
// link to the machine (CNI's ptp plugin), without bridge, packet filters or address translation.
// Only the machine and its pods can reach each other. Service addresses do not work, because there
// is no kube-proxy.
//
// The kubelet does not accept a node address in 127.0.0.0/8. Its address is the last of the /24, on
// the loopback interface, so it serves this machine only.
package localnode
