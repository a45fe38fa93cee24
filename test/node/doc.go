// Package node tests the real node of a local cluster end to end: a kubelet and
// containerd on this machine, whose kernel says what became of the containers. The
// tests need root and the node's programs ("make build-node"), and say so when they
// skip. One after the other: a machine can be one node only.
package node
