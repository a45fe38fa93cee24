// Package localcluster runs a whole Kubernetes control plane on this machine:
// etcd, kube-apiserver, kube-controller-manager, a scheduler, and KWOK, which
// plays the kubelets of simulated nodes. Everything listens on 127.0.0.1 or on
// a Unix socket, needs no privilege, and lives below one data directory:
//
//	lock         says that the directory is a cluster's (see lock.go); held while one
//	             runs here; contains the supervisor's pid
//	state.json   the components, their pids and states (see State)
//	kubeconfig   for kubectl, as administrator
//	logs/        one file per component
//	config/      kubeconfigs and configuration files of the components
//	pki/         certificates and keys, made anew at every start
//	etcd/        the data; etcd.sock, etcd-peer.sock: its sockets
//
// The package contains no server. It is given a multi-call executable and
// starts each component as
//
//	EXECUTABLE component NAME FLAGS...
//
// in a process of its own, so that flags and feature gates of one component,
// which Kubernetes keeps in global variables, cannot reach another.
//
// A cluster starts empty and is gone when it ends. So nothing needs to be
// synced to disk (etcd runs without fsync), and nothing is gained by ending a
// component gently: Stop kills all of them at once.
//
// Two clusters never get in each other's way: etcd listens on Unix sockets in
// the data directory, and the ports of the other components are reserved for
// as long as the cluster runs (see ports.go).
package localcluster
