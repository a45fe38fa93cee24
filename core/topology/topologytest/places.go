package topologytest

import (
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// places are the possible locations of the cores of a machine.
type places struct {
	nested     bool
	llcs, dies int
	packages   int
	nodes      []topology.NUMAID
}

func drawPlaces(t *rapid.T) places {
	p := places{
		nested:   rapid.Bool().Draw(t, "nested"),
		llcs:     rapid.IntRange(1, 6).Draw(t, "llcs"),
		dies:     rapid.IntRange(1, 3).Draw(t, "dies"),
		packages: rapid.IntRange(1, 2).Draw(t, "packages"),
	}
	node := topology.NUMAID(0)
	for range rapid.IntRange(1, 5).Draw(t, "numaNodes") {
		node += topology.NUMAID(rapid.SampledFrom([]int{0, 0, 0, 1, 7}).Draw(t, "numaGap"))
		p.nodes = append(p.nodes, node)
		node++
	}
	if rapid.IntRange(0, 4).Draw(t, "withoutNUMA") == 4 {
		p.nodes = append(p.nodes, topology.NoNUMA)
	}
	return p
}

// draw draws the location of one core.
func (p places) draw(t *rapid.T) topology.CPU {
	llc := rapid.IntRange(0, p.llcs-1).Draw(t, "llc")
	if !p.nested {
		return topology.CPU{
			LLC:     topology.LLCID(llc * 3),
			NUMA:    rapid.SampledFrom(p.nodes).Draw(t, "numa"),
			Die:     topology.DieID(rapid.IntRange(0, p.dies-1).Draw(t, "die")),
			Package: topology.PackageID(rapid.IntRange(0, p.packages-1).Draw(t, "package")),
		}
	}
	node := llc * len(p.nodes) / p.llcs
	die := node * p.dies / len(p.nodes)
	return topology.CPU{
		LLC:     topology.LLCID(llc),
		NUMA:    p.nodes[node],
		Die:     topology.DieID(die),
		Package: topology.PackageID(die * p.packages / p.dies),
	}
}

// drawNodes returns the NUMA nodes that the CPUs name and up to two without CPUs.
func drawNodes(t *rapid.T, cpus []topology.CPU) []topology.NUMANode {
	byID := map[topology.NUMAID]topology.NUMANode{}
	last := topology.NUMAID(0)
	for _, c := range cpus {
		if c.NUMA == topology.NoNUMA {
			continue
		}
		n := byID[c.NUMA]
		n.CPUs.Add(c.ID)
		n.LocalCPUs = n.CPUs
		byID[c.NUMA] = n
		last = max(last, c.NUMA)
	}
	withCPUs := len(byID)
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "memoryOnlyNodes") {
		id := topology.NUMAID(rapid.IntRange(0, int(last)+2).Draw(t, "memoryOnlyNode"))
		if _, taken := byID[id]; !taken {
			byID[id] = memoryOnly(t, byID, withCPUs)
		}
	}
	var nodes []topology.NUMANode
	for id := topology.NUMAID(0); len(nodes) < len(byID); id++ {
		n, ok := byID[id]
		if !ok {
			continue
		}
		n.ID = id
		n.MemoryBytes = uint64(rapid.IntRange(0, 64).Draw(t, "memoryGiB")) << 30
		nodes = append(nodes, n)
	}
	drawDistances(t, nodes)
	return nodes
}

// memoryOnly returns a node without CPUs that is near the CPUs of some or none of the other nodes.
func memoryOnly(t *rapid.T, nodes map[topology.NUMAID]topology.NUMANode, withCPUs int) topology.NUMANode {
	near := rapid.SliceOfN(rapid.Bool(), withCPUs, withCPUs).Draw(t, "near")
	var memory topology.NUMANode
	for id := topology.NUMAID(0); len(near) > 0; id++ {
		n, ok := nodes[id]
		if !ok || n.CPUs.IsEmpty() {
			continue
		}
		if near[0] {
			memory.LocalCPUs = memory.LocalCPUs.Union(n.CPUs)
		}
		near = near[1:]
	}
	return memory
}

// drawDistances draws distances with few different values, so that there are ties. One in four
// draws is asymmetric and has nodes that are not nearest to themselves.
func drawDistances(t *rapid.T, nodes []topology.NUMANode) {
	values := rapid.SampledFrom([]int{11, 12, 16, 20, 21, 32})
	wild := rapid.IntRange(0, 3).Draw(t, "wildDistances") == 3
	for i := range nodes {
		nodes[i].Distances = make([]int, len(nodes))
	}
	for i := range nodes {
		for j := range nodes {
			switch {
			case wild:
				nodes[i].Distances[j] = rapid.IntRange(0, 255).Draw(t, "distance")
			case i == j:
				nodes[i].Distances[j] = topology.LocalDistance
			case i < j:
				nodes[i].Distances[j] = values.Draw(t, "distance")
				nodes[j].Distances[i] = nodes[i].Distances[j]
			}
		}
	}
}

// RandomShape draws a regular machine of 1 to `most` CPUs.
func RandomShape(t *rapid.T, most int) topology.Shape {
	room := most
	count := func(label string, largest int) int {
		n := rapid.IntRange(1, max(1, min(room, largest))).Draw(t, label)
		room /= n
		return n
	}
	return topology.Shape{
		ThreadsPerCore:  count("threadsPerCore", 8),
		Packages:        count("packages", 4),
		NUMAPerPackage:  count("numaPerPackage", 4),
		LLCsPerNUMA:     count("llcsPerNUMA", 4),
		CoresPerLLC:     count("coresPerLLC", 16),
		Numbering:       rapid.SampledFrom([]topology.Numbering{topology.SiblingsApart, topology.SiblingsAdjacent}).Draw(t, "numbering"),
		MemoryBytesNUMA: uint64(rapid.IntRange(0, 64).Draw(t, "memoryGiB")) << 30,
	}
}

// TakeOffline takes CPUs of a machine offline.
func TakeOffline(m *topology.Machine, offline cpuset.Set) { *m = *m.Without(offline) }
