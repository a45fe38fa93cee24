// Package localcluster runs a complete Kubernetes control plane on this machine: etcd,
// kube-apiserver, kube-controller-manager, a scheduler, and for simulated nodes KWOK, which simulates
// their kubelets, and one program that allocates CPUs as their agents would. With Config.RealNode, this machine is a node, too, which needs root.
//
//	cluster, err := localcluster.Start(ctx, config)
//	defer cluster.Stop()
//
// The control plane listens on 127.0.0.1 or on a Unix socket, needs no privilege, and is stored
// below one data directory:
//
//	lock         marks the directory as a cluster's (see lock.go); locked while a cluster runs;
//	             contains the supervisor's pid
//	state.json   the components, their pids and states (see State)
//	kubeconfig   for kubectl, as administrator
//	logs/        one file per component; supervisor.log, beside it: of a detached supervisor
//	config/      kubeconfigs and configuration files of the components
//	pki/         certificates and keys, created at every start
//	etcd/        the data; etcd.sock, etcd-peer.sock: its sockets
//	node/        the files of a real node
//
// The package contains no servers. It is given a multi-call executable and starts each component as
//
//	EXECUTABLE component NAME FLAGS...
//
// in a separate process, because Kubernetes keeps flags and feature gates in global variables, and
// those of one component must not affect another.
//
// A cluster starts empty and is discarded when it ends. So nothing needs to be synced to disk (etcd
// runs without fsync), and components need no graceful shutdown: Stop kills all of them at once.
//
// Several clusters can run at the same time: etcd listens on Unix sockets in the data directory,
// and the ports of the other components are reserved for as long as the cluster runs (see
// ports.go).
package localcluster
