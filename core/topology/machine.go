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
	"cmp"
	"slices"
	"sort"
	"strconv"
	"strings"

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

// NoNUMA is the NUMA node of a CPU without a NUMA node, such as one whose node is offline.
const NoNUMA NUMAID = -1

// Kind is a kind of core. It is "" on machines with a single kind. Kinds differ in their design, or
// only in their clock ([ClockKind]): every CPU decision prefers few designs to near memory, and
// near memory to a fast clock.
type Kind string

// clock stands before the number of a clock in the names of kinds.
const clock = "clock-"

// ClockKind returns the kind of the cores of one design that have the n-th fastest clock of these,
// counted from 1: for example those with a high base frequency of Intel Speed Select. The design is
// "" if all cores of the machine have the same.
func ClockKind(design Kind, n int) Kind {
	if design != "" {
		design += "/"
	}
	return design + clock + Kind(strconv.Itoa(n))
}

// Design returns what kinds that differ only in their clock have in common.
func (k Kind) Design() Kind {
	if i := strings.LastIndex(string(k), clock); i == 0 || i > 0 && k[i-1] == '/' {
		return k[:max(0, i-1)]
	}
	return k
}

// The kinds of core of hybrid machines.
const (
	KindPerformance Kind = "performance"
	KindEfficiency  Kind = "efficiency"
	// KindLowPower cores are the slowest: Intel's cores outside the compute die.
	KindLowPower Kind = "low-power"
)

// CPU is one online logical CPU (hardware thread).
type CPU struct {
	ID      cpuset.CPU `json:"id"`
	Core    CoreID     `json:"core"`
	LLC     LLCID      `json:"llc"`
	NUMA    NUMAID     `json:"numa"` // NoNUMA if it has none
	Die     DieID      `json:"die"`
	Package PackageID  `json:"package"`
	Kind    Kind       `json:"kind"`
}

// NUMANode is one NUMA node, with or without CPUs.
type NUMANode struct {
	ID NUMAID
	// CPUs are the online CPUs of the node; empty for a node that has only memory.
	CPUs cpuset.Set
	// LocalCPUs are the CPUs for which this node's memory is local: its own CPUs or, for a node
	// that has only memory, those of the nodes nearest to it by firmware or distance.
	LocalCPUs cpuset.Set
	// MemoryBytes is the size of the node's memory, 0 if unknown.
	MemoryBytes uint64
	// Distances are the distances to every node, including itself, in the order of
	// Machine.NUMANodes and the unit of the ACPI SLIT (10 is local).
	Distances []int
}

// Machine is the CPU topology of one machine.
type Machine struct {
	// CPUs are the online CPUs in ascending order of id.
	CPUs []CPU
	// NUMANodes are the online NUMA nodes in ascending order of id.
	NUMANodes []NUMANode
	// Offline are the CPUs that are present but not online.
	Offline cpuset.Set
	// Isolated are the online CPUs that the kernel excludes from load balancing (isolcpus= on the
	// kernel command line).
	Isolated cpuset.Set
	// NoHZFull are the online CPUs without a timer tick while one thread runs on them (nohz_full=). No
	// decision uses them.
	NoHZFull cpuset.Set
	// Kinds are the kinds of core that occur in CPUs, fastest first.
	Kinds []Kind
	// LLCBytes are the sizes of the last-level caches, as far as they are known. No decision uses
	// them.
	LLCBytes map[LLCID]uint64
}

// Online returns the set of online CPUs.
func (m *Machine) Online() cpuset.Set {
	var s cpuset.Set
	for i := range m.CPUs {
		s.Add(m.CPUs[i].ID)
	}
	return s
}

// Balanced returns the online CPUs among which the kernel balances load: all but the isolated ones,
// or all if there are no others. The threads of a container would all stay on one of several isolated
// CPUs, so only these CPUs are given or shared.
func (m *Machine) Balanced() cpuset.Set {
	if balanced := m.Online().Difference(m.Isolated); !balanced.IsEmpty() {
		return balanced
	}
	return m.Online()
}

// CPU returns the description of one CPU, and false if it is not online.
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

// numaIndex returns the index of a node in NUMANodes, or -1.
func (m *Machine) numaIndex(id NUMAID) int {
	// Unlike slices.BinarySearchFunc, this does not copy nodes, which are large.
	i := sort.Search(len(m.NUMANodes), func(i int) bool { return m.NUMANodes[i].ID >= id })
	if i == len(m.NUMANodes) || m.NUMANodes[i].ID != id {
		return -1
	}
	return i
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

// KindsOf returns the kinds of core that occur, fastest first by their names: performance, then
// other names in alphabetical order, then efficiency and low-power. Vendors' names for these are
// known, too, in upper or lower case.
func KindsOf(cpus []CPU) []Kind {
	var kinds []Kind
	for _, c := range cpus {
		if !slices.Contains(kinds, c.Kind) {
			kinds = append(kinds, c.Kind)
		}
	}
	slices.SortFunc(kinds, func(a, b Kind) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a, b))
	})
	return kinds
}

// rank orders kinds by the speed that their names suggest, fastest first.
func (k Kind) rank() int {
	switch strings.ToLower(string(k)) {
	case "prime":
		return -2
	case string(KindPerformance), "p", "p-core", "core", "big":
		return -1
	case string(KindEfficiency), "e", "e-core", "atom", "little":
		return 1
	case string(KindLowPower), "lp-e", "lp-e-core":
		return 2
	default:
		return 0
	}
}

// SameCPUs reports whether two machines are equal except for sizes of memory and caches, and nohz_full. Every
// CPU decision is then the same on both.
func (m *Machine) SameCPUs(other *Machine) bool {
	return slices.Equal(m.CPUs, other.CPUs) &&
		slices.EqualFunc(m.NUMANodes, other.NUMANodes, sameNode) &&
		m.Offline == other.Offline && m.Isolated == other.Isolated && slices.Equal(m.Kinds, other.Kinds)
}

func sameNode(a, b NUMANode) bool {
	return a.ID == b.ID && a.CPUs == b.CPUs && a.LocalCPUs == b.LocalCPUs && slices.Equal(a.Distances, b.Distances)
}
