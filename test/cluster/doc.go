// Package cluster tests Pinfold end to end on a real control plane: etcd, kube-apiserver,
// kube-controller-manager and Pinfold's scheduler, run by pinfold-local, with simulated nodes. The
// tests build that command and start one cluster for all of them. They need no privilege.
package cluster
