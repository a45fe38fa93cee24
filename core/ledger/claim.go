package ledger

import (
	"strconv"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// MilliCPU is an amount of CPU time in thousandths of one CPU.
type MilliCPU int64

// String formats the amount in CPUs: "2", "0.25".
func (m MilliCPU) String() string {
	return strconv.FormatFloat(float64(m)/1000, 'f', -1, 64)
}

// maxDemand bounds one container's request in the sums, far above any machine, so that no sum of
// absurd requests overflows.
const maxDemand MilliCPU = 1 << 40

// bounded is the amount as it enters the sums.
func (m MilliCPU) bounded() MilliCPU { return min(max(m, 0), maxDemand) }

// wholeCPUs is the amount of n whole CPUs.
func wholeCPUs(n int) MilliCPU { return MilliCPU(n) * 1000 }

// PodID identifies a pod (its UID in Kubernetes).
type PodID string

// Config defines what a node reserves.
type Config struct {
	// Reserved is the amount that the node keeps for the system (capacity - allocatable); it must
	// fit in the shared CPUs.
	Reserved MilliCPU
	// ReservedCPUs are never exclusive (the kubelet's reservedSystemCPUs).
	ReservedCPUs cpuset.Set
	// MinShared is the least number of CPUs that stay shared. With 0 and nothing reserved a static
	// pod may take the last CPU, and pods that request nothing are left without any.
	MinShared int
}

// Role defines when in its pod's life a container runs.
type Role uint8

const (
	// RoleMain containers run together, after all ordinary init containers ended.
	RoleMain Role = iota
	// RoleSidecar is a restartable init container: it runs from its place in the order of init
	// containers until the pod ends.
	RoleSidecar
	// RoleInit is an ordinary init container: it runs alone, but for the sidecars that come before
	// it.
	RoleInit
)

// RunsWith reports whether a container of this role and a later container of the pod ever run at
// the same time.
func (r Role) RunsWith(later Role) bool {
	switch {
	case r == RoleInit:
		return false // ends before a later init container, a later sidecar or a main one starts
	case later == RoleInit:
		return r == RoleSidecar
	default:
		return true
	}
}

// Claim is what one pod has been given, or requests, on this node.
type Claim struct {
	ID PodID
	// Rank orders claims that collide: the lower one keeps the CPU. Kubernetes callers use the time
	// of binding, or, where decisions are signed, the negative time of the decision. Equal ranks
	// are ordered by ID.
	Rank int64
	// Containers are the containers with CPUs of their own choice; all other containers of the pod
	// live in the shared CPUs. Init containers stand in their order in the pod. They must not
	// change once the claim is booked.
	Containers []ContainerClaim
	// SharedRequest is what the rest of the pod requests of the shared CPUs: containers without
	// CPUs of their own, pod overhead, pod-level resources.
	SharedRequest MilliCPU
}

// ContainerClaim is one container's CPUs or confinement.
type ContainerClaim struct {
	Name   string
	Role   Role
	Policy placement.Policy
	// Limit is n, the number of CPUs it is entitled to.
	Limit int
	// Request is what the container requests. A StaticBurst container requests it of the shared
	// CPUs of its NUMA nodes. A Static container's does not count while it has its CPUs, and is
	// requested of the shared CPUs when its pod loses them to an earlier claim.
	Request MilliCPU
	// CPUs are a Static container's own CPUs.
	CPUs cpuset.Set
	// NUMANodes confine a StaticBurst container.
	NUMANodes []topology.NUMAID
}
