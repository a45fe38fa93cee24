// Package cluster tests Pinfold end to end on a real control plane: etcd,
// kube-apiserver, kube-controller-manager and Pinfold's scheduler, as command
// pinfold-local runs them, with simulated nodes. The tests build that command, start
// one cluster for all of them, and need no privilege.
package cluster
