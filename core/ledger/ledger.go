package ledger

import (
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// MilliCPU is an amount of CPU time in thousandths of one CPU.
type MilliCPU int64

// PodID identifies a pod (its UID in Kubernetes).
type PodID string

// Config is what a node keeps back from pods.
type Config struct {
	// Reserved is the amount that the node keeps for the system (capacity -
	// allocatable); it must fit in the shared CPUs.
	Reserved MilliCPU
	// ReservedCPUs are never exclusive (the kubelet's reservedSystemCPUs).
	ReservedCPUs cpuset.Set
	// MinShared is the least number of CPUs that stay shared.
	MinShared int
}

// Claim is what one pod has been given, or asks to be given, on this node.
type Claim struct {
	ID PodID
	// Rank orders claims that collide: the lower one keeps the CPU. Kubernetes
	// callers use the time of binding. Equal ranks are ordered by ID.
	Rank int64
	// Containers are the containers with CPUs of their own choice; all other
	// containers of the pod live in the shared CPUs.
	Containers []ContainerClaim
	// SharedRequest is what the rest of the pod requests of the shared CPUs:
	// containers without CPUs of their own, pod overhead, pod-level resources.
	SharedRequest MilliCPU
}

// ContainerClaim is one container's CPUs or confinement.
type ContainerClaim struct {
	Name   string
	Policy placement.Policy
	// Limit is n, the number of CPUs it is entitled to.
	Limit int
	// Request is what a StaticBurst container requests of the shared CPUs.
	Request MilliCPU
	// CPUs are a Static container's own CPUs.
	CPUs cpuset.Set
	// NUMANodes confine a StaticBurst container.
	NUMANodes []topology.NUMAID
}
