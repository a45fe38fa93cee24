package ledger

import (
	"strconv"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// MilliCPU is an amount of CPU time in thousandths of one CPU.
type MilliCPU int64

// CPUs returns the amount as a number of CPUs.
func (m MilliCPU) CPUs() float64 { return float64(m) / 1000 }

// String formats the amount in CPUs: "2", "0.25".
func (m MilliCPU) String() string {
	return strconv.FormatFloat(m.CPUs(), 'f', -1, 64)
}

// MaxRequest is the largest request of a container that is counted. It is far above any machine, so
// sums of requests do not overflow.
const MaxRequest MilliCPU = 1 << 40

// bounded returns the amount as it is counted in sums.
func (m MilliCPU) bounded() MilliCPU { return min(max(m, 0), MaxRequest) }

// wholeCPUs returns the amount of n whole CPUs.
func wholeCPUs(n int) MilliCPU { return MilliCPU(n) * 1000 }

// PodID identifies a pod (its UID in Kubernetes).
type PodID string

func (id PodID) String() string { return string(id) }

// Config defines what a node reserves.
type Config struct {
	// Reserved is the amount that the node reserves for the system (capacity - allocatable). It
	// must fit in the shared CPUs.
	Reserved MilliCPU
	// ReservedCPUs are never exclusive (the kubelet's reservedSystemCPUs).
	ReservedCPUs cpuset.Set
	// MinShared is the minimum number of shared CPUs. If it is 0 and nothing is reserved, a static
	// pod may take the last CPU and leave none for pods that request nothing.
	MinShared int
	// Decisions is how many decisions follow each other while others wait, 0 for one:
	// [placement.ShareOf] bounds all together.
	Decisions int
}

// Role defines when in its pod's life a container runs.
type Role uint8

const (
	// RoleMain containers run together, after all ordinary init containers ended.
	RoleMain Role = iota
	// RoleSidecar containers are restartable init containers: each runs from its place in the order
	// of init containers until the pod ends.
	RoleSidecar
	// RoleInit containers are ordinary init containers: each runs alone except for the sidecars
	// before it.
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

// InUse are the CPUs of a pod's containers so far, in the order of the pod. It answers for all of
// them what [Role.RunsWith] answers for one.
type InUse struct{ sidecars, lasting cpuset.Set }

// Add adds the CPUs of the next container.
func (u *InUse) Add(role Role, cpus cpuset.Set) {
	switch role {
	case RoleInit: // ends before any later container starts
	case RoleSidecar:
		u.sidecars = u.sidecars.Union(cpus)
		u.lasting = u.lasting.Union(cpus)
	default:
		u.lasting = u.lasting.Union(cpus)
	}
}

// With returns the CPUs of those containers that run at the same time as a later one.
func (u *InUse) With(later Role) cpuset.Set {
	if later == RoleInit {
		return u.sidecars
	}
	return u.lasting
}

// Claim is the CPUs that were allocated to one pod, and its requests, on this node.
type Claim struct {
	ID PodID
	// Rank orders claims that collide: the lower rank keeps the CPU. Kubernetes callers use the
	// negative time of the decision. Equal ranks are ordered by ID.
	Rank int64
	// Containers are the containers that are placed; all other containers of the pod run in the
	// shared CPUs. Init containers are in the order of the pod. Containers must not be changed
	// after the claim was added to Books.
	Containers []ContainerClaim
	// SharedRequest is what the rest of the pod requests of the shared CPUs: the other containers,
	// pod overhead and pod-level resources.
	SharedRequest MilliCPU
}

// Portions returns the static containers, those that run longest first, with disjoint CPUs: a CPU
// that several use in turn is left to the first of them.
func (c *Claim) Portions() (all []ContainerClaim) {
	var taken cpuset.Set
	for _, init := range []bool{false, true} {
		for _, one := range c.Containers {
			if (one.Role == RoleInit) == init && one.Policy == placement.Static {
				one.CPUs, taken = one.CPUs.Difference(taken), taken.Union(one.CPUs)
				all = append(all, one)
			}
		}
	}
	return all
}

// ContainerClaim is the CPUs or the confinement of one container.
type ContainerClaim struct {
	Name   string
	Role   Role
	Policy placement.Policy
	// Limit is the number of CPUs that the container is entitled to.
	Limit int
	// Request is what the container requests. A StaticBurst container requests it of the shared
	// CPUs of its NUMA nodes. That of a Static container counts only if its pod loses its CPUs to
	// an earlier claim, or if they are all offline; it is then requested of the shared CPUs.
	Request MilliCPU
	// CPUs are the exclusive CPUs of a Static container.
	CPUs cpuset.Set
	// NUMANodes are the nodes that a StaticBurst container is confined to.
	NUMANodes []topology.NUMAID
}

// Phases computes the largest need of any phase of a pod's life. A phase is either all long-running
// containers together, or one ordinary init container with the sidecars before it.
type Phases[T ~int | ~int64] struct{ sidecars, mains, inits T }

// Add adds the next container. Init containers must be added in their order; main containers may be
// added at any point.
func (p *Phases[T]) Add(role Role, need T) {
	switch role {
	case RoleInit:
		p.inits = max(p.inits, p.sidecars+need)
	case RoleSidecar:
		p.sidecars += need
	default:
		p.mains += need
	}
}

// Largest returns the need of the phase that needs most.
func (p *Phases[T]) Largest() T { return max(p.inits, p.sidecars+p.mains) }
