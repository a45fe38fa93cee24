package vm

import (
	"fmt"
	"slices"
	"strings"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// Shape is the topology of a virtual machine.
type Shape struct {
	// The number of packages, and of dies, cores and threads in each package, die and core.
	Packages, Dies, Cores, Threads int
	// Empty is the number of CPUs that are missing at the end, as if the last package had a smaller
	// processor.
	Empty int
	// Offline are CPUs that are taken offline after the boot, never CPU 0.
	Offline cpuset.Set
	// Isolated are CPUs that the kernel excludes from load balancing.
	Isolated cpuset.Set
	// Nodes are the NUMA nodes, numbered from 0. If there are none, the firmware does not describe
	// NUMA, and the kernel creates one node.
	Nodes []Node
	// Distances are those between nodes, in the order of Nodes. If nil, the firmware does not
	// describe them, and the kernel assumes 10 and 20.
	Distances [][]int
}

// Node is a NUMA node.
type Node struct {
	CPUs cpuset.Set // may include missing CPUs; empty for a node with memory only
	MiB  int
	// Initiators are the nodes whose CPUs are nearest to this node with memory only, according to
	// the firmware (ACPI HMAT); nil if it does not describe that.
	Initiators []int
}

// memoryMiB is the memory of a machine without nodes.
const memoryMiB = 1024

// slots returns the maximum number of CPUs.
func (s Shape) slots() int { return s.Packages * s.Dies * s.Cores * s.Threads }

// Arguments returns QEMU's arguments for the shape.
func (s Shape) Arguments() []string {
	args := []string{"-smp", fmt.Sprintf("%d,maxcpus=%d,sockets=%d,dies=%d,cores=%d,threads=%d",
		s.slots()-s.Empty, s.slots(), s.Packages, s.Dies, s.Cores, s.Threads)}
	machine, total := "q35", memoryMiB
	var numa []string
	for i, n := range s.Nodes {
		if i == 0 {
			total = 0
		}
		total += n.MiB
		numa = append(numa, "-object", fmt.Sprintf("memory-backend-ram,id=m%d,size=%dM", i, n.MiB))
		node := fmt.Sprintf("node,nodeid=%d,memdev=m%d", i, i)
		for list := range strings.SplitSeq(n.CPUs.String(), ",") {
			if list != "" {
				node += ",cpus=" + list
			}
		}
		if s.hmat() {
			node += fmt.Sprintf(",initiator=%d", s.initiators(i)[0])
		}
		numa = append(numa, "-numa", node)
	}
	for i, row := range s.Distances {
		for j, d := range row {
			numa = append(numa, "-numa", fmt.Sprintf("dist,src=%d,dst=%d,val=%d", i, j, d))
		}
	}
	if s.hmat() {
		machine += ",hmat=on"
		numa = append(numa, s.latencies()...)
	}
	args = append(args, "-machine", machine, "-m", fmt.Sprintf("%dM", total))
	return append(args, numa...)
}

// hmat reports whether the firmware describes initiators.
func (s Shape) hmat() bool {
	return slices.ContainsFunc(s.Nodes, func(n Node) bool { return n.Initiators != nil })
}

func (s Shape) initiators(node int) []int {
	if !s.Nodes[node].CPUs.IsEmpty() {
		return []int{node}
	}
	return s.Nodes[node].Initiators
}

// latencies returns arguments by which a node's initiators are faster than other nodes.
func (s Shape) latencies() []string {
	var args []string
	for target := range s.Nodes {
		for from, n := range s.Nodes {
			if n.CPUs.IsEmpty() {
				continue
			}
			latency, bandwidth := 200, 10
			if slices.Contains(s.initiators(target), from) {
				latency, bandwidth = 50, 40
			}
			lb := fmt.Sprintf("hmat-lb,initiator=%d,target=%d,hierarchy=memory,data-type=", from, target)
			args = append(args, "-numa", fmt.Sprintf("%saccess-latency,latency=%d", lb, latency),
				"-numa", fmt.Sprintf("%saccess-bandwidth,bandwidth=%dG", lb, bandwidth))
		}
	}
	return args
}

// KernelArguments returns the kernel's arguments for the shape.
func (s Shape) KernelArguments() string {
	if s.Isolated.IsEmpty() {
		return ""
	}
	return "isolcpus=" + s.Isolated.String()
}

// Machine returns what linux/sysfs should read in the machine, except for the size of the memory:
// the nodes here have all of it, and the kernel reserves some.
//
// QEMU numbers the threads of a core consecutively, then the cores of a die, then the dies of a
// package. Its Intel processors have an L3 cache per die.
func (s Shape) Machine() *topology.Machine {
	m := &topology.Machine{Offline: s.Offline, Isolated: s.Isolated.Difference(s.Offline), Kinds: []topology.Kind{""}}
	cores, dies := map[int]int{}, map[int]int{}
	for i := range s.slots() - s.Empty {
		id := cpuset.CPU(i)
		if s.Offline.Contains(id) {
			continue
		}
		core, die := dense(cores, i/s.Threads), dense(dies, i/s.Threads/s.Cores)
		m.CPUs = append(m.CPUs, topology.CPU{
			ID: id, Core: topology.CoreID(core), LLC: topology.LLCID(die), Die: topology.DieID(die),
			Package: topology.PackageID(i / s.Threads / s.Cores / s.Dies), NUMA: s.nodeOf(id),
		})
	}
	m.NUMANodes = s.nodes(m.Online())
	return m
}

// dense numbers keys in order of their first appearance.
func dense(seen map[int]int, key int) int {
	if _, ok := seen[key]; !ok {
		seen[key] = len(seen)
	}
	return seen[key]
}

func (s Shape) nodeOf(c cpuset.CPU) topology.NUMAID {
	for i, n := range s.Nodes {
		if n.CPUs.Contains(c) {
			return topology.NUMAID(i)
		}
	}
	return 0
}

func (s Shape) nodes(online cpuset.Set) []topology.NUMANode {
	if len(s.Nodes) == 0 {
		return []topology.NUMANode{{CPUs: online, LocalCPUs: online, MemoryBytes: memoryMiB << 20, Distances: []int{10}}}
	}
	var nodes []topology.NUMANode
	for i, n := range s.Nodes {
		node := topology.NUMANode{ID: topology.NUMAID(i), CPUs: n.CPUs.Intersection(online), MemoryBytes: uint64(n.MiB) << 20}
		node.LocalCPUs = node.CPUs
		for j := range s.Nodes {
			node.Distances = append(node.Distances, s.distance(i, j))
		}
		if node.CPUs.IsEmpty() {
			for _, near := range s.nearest(i, online) {
				node.LocalCPUs = node.LocalCPUs.Union(s.Nodes[near].CPUs.Intersection(online))
			}
		}
		nodes = append(nodes, node)
	}
	return nodes
}

func (s Shape) distance(i, j int) int {
	switch {
	case s.Distances != nil:
		return s.Distances[i][j]
	case i == j:
		return 10
	}
	return 20
}

// nearest returns the nodes whose CPUs are local to a node without online CPUs.
func (s Shape) nearest(node int, online cpuset.Set) []int {
	if s.Nodes[node].Initiators != nil {
		return s.Nodes[node].Initiators
	}
	var nearest []int
	for i, n := range s.Nodes {
		if !n.CPUs.Intersects(online) {
			continue
		}
		if len(nearest) > 0 && s.distance(node, i) < s.distance(node, nearest[0]) {
			nearest = nil
		}
		if len(nearest) == 0 || s.distance(node, i) == s.distance(node, nearest[0]) {
			nearest = append(nearest, i)
		}
	}
	return nearest
}
