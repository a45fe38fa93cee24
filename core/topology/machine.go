// Package topology describes the CPU topology of one machine: which logical CPUs share a core, a
// last-level cache (LLC), a NUMA node, a die and a package, the distances between the NUMA nodes,
// and the kinds of core.
//
//	m, err := topology.Decode(r)             // from JSON
//	for _, core := range m.Cores() { ... }
//
// A [Machine] is plain data. Package linux/sysfs reads it from /sys, kube/nodetopology from a
// cluster object, and [Decode] from JSON; [Shape.Build] makes a synthetic one. Every machine must
// pass [Machine.Validate] before it is used for a decision.
//
// Validate enforces the nesting that every machine obeys: the threads of a core share its LLC, NUMA
// node, die, package and kind. Nothing more is assumed. An LLC may span NUMA nodes, a NUMA node may
// span LLCs or packages, ids may be sparse, a NUMA node may have no CPUs and a CPU no NUMA node.
package topology

import (
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
)

// Ids of the parts of a machine. Each is unique in the machine, not per parent.
type (
	// CoreID numbers physical cores.
	CoreID int
	// LLCID numbers last-level caches.
	LLCID int
	// NUMAID is the kernel's NUMA node number; numbers may be sparse.
	NUMAID int
	// DieID numbers dies.
	DieID int
	// PackageID numbers packages (sockets), as the kernel does.
	PackageID int
)

// NoNUMA is the NUMA node of a CPU that belongs to none, such as one whose node is offline.
const NoNUMA NUMAID = -1

// Kind names a kind of core. It is "" on machines with a single kind.
type Kind string

// The kinds of core of hybrid machines.
const (
	KindPerformance Kind = "performance"
	KindEfficiency  Kind = "efficiency"
	// KindLowPower is slower still: Intel's cores outside the compute die.
	KindLowPower Kind = "low-power"
)

// CPU is one online logical CPU (hardware thread).
type CPU struct {
	ID      cpuset.CPU
	Core    CoreID
	LLC     LLCID
	NUMA    NUMAID // NoNUMA when it has none
	Die     DieID
	Package PackageID
	Kind    Kind
}

// NUMANode is one NUMA node, with or without CPUs.
type NUMANode struct {
	ID NUMAID
	// CPUs are the online CPUs of the node; empty for a node of memory only.
	CPUs cpuset.Set
	// LocalCPUs are the CPUs for which this node's memory is local. For a node with CPUs these are
	// its CPUs; for a node of memory only they are the CPUs of the nodes that the firmware or the
	// distances put next to it.
	LocalCPUs cpuset.Set
	// MemoryBytes is the size of the node's memory, 0 when unknown.
	MemoryBytes uint64
	// Distances to every node in the order of Machine.NUMANodes, the node itself included, in the
	// unit of the ACPI SLIT (10 is local).
	Distances []int
}

// Machine is the CPU topology of one machine.
type Machine struct {
	// CPUs are the online CPUs in ascending order of id.
	CPUs []CPU
	// NUMANodes are the online NUMA nodes in ascending order of id.
	NUMANodes []NUMANode
	// Offline are the CPUs that are present and not online.
	Offline cpuset.Set
	// Isolated are the online CPUs that the kernel keeps out of load balancing (isolcpus= on the
	// kernel command line).
	Isolated cpuset.Set
	// Kinds are the kinds of core, fastest first: one entry for every Kind that occurs in CPUs.
	Kinds []Kind
}

// Online returns the set of online CPUs.
func (m *Machine) Online() cpuset.Set {
	var s cpuset.Set
	for i := range m.CPUs {
		s.Add(m.CPUs[i].ID)
	}
	return s
}

// CPU returns the description of one CPU, and false when it is not online.
func (m *Machine) CPU(id cpuset.CPU) (CPU, bool) {
	i, ok := slices.BinarySearchFunc(m.CPUs, id, func(c CPU, id cpuset.CPU) int { return int(c.ID - id) })
	if !ok {
		return CPU{}, false
	}
	return m.CPUs[i], true
}

// NUMANode returns the node with the given id, and false if it does not exist.
func (m *Machine) NUMANode(id NUMAID) (NUMANode, bool) {
	i := m.numaIndex(id)
	if i < 0 {
		return NUMANode{}, false
	}
	return m.NUMANodes[i], true
}

// numaIndex returns where the node stands in NUMANodes, and -1 when it does not.
func (m *Machine) numaIndex(id NUMAID) int {
	from, to := 0, len(m.NUMANodes)
	for from < to { // by index: a node is too large to be copied for every comparison
		if middle := (from + to) / 2; m.NUMANodes[middle].ID < id {
			from = middle + 1
		} else {
			to = middle
		}
	}
	if from == len(m.NUMANodes) || m.NUMANodes[from].ID != id {
		return -1
	}
	return from
}

// Distance returns the SLIT distance from NUMA node a to b. If one of them is unknown, including
// NoNUMA, it returns 10 if they are the same, and otherwise the largest distance of the machine,
// but at least 20 (the SLIT's default for a remote node).
func (m *Machine) Distance(a, b NUMAID) int {
	i, j := m.numaIndex(a), m.numaIndex(b)
	if i >= 0 && j >= 0 {
		return m.NUMANodes[i].Distances[j]
	}
	if a == b {
		return LocalDistance
	}
	largest := RemoteDistance
	for _, n := range m.NUMANodes {
		largest = max(largest, slices.Max(n.Distances))
	}
	return largest
}

// Default distances in the unit of the ACPI SLIT, for firmware that reports none.
const (
	LocalDistance  = 10
	RemoteDistance = 20
)
