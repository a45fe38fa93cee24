// Package node tests the real node of a local cluster end to end: a kubelet and containerd on this
// machine, and the kernel's settings of the containers. The tests need root and the node's programs
// ("make build-node"); if either is missing, they skip with that reason. They run one at a time,
// because a machine can be only one node. PINFOLD_TEST_PROGRAMS is a directory with commands that are
// built already, such as bin.
package node
