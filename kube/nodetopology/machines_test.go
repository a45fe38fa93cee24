package nodetopology

import (
	"maps"
	"slices"
	"testing"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// machines returns the machines that the tests of this package use.
func machines(t testing.TB) map[string]*topology.Machine {
	t.Helper()
	all := map[string]*topology.Machine{
		"intel104":    topology.Intel104().MustBuild(),
		"amd256":      topology.AMD256().MustBuild(),
		"one":         topology.Shape{}.MustBuild(),
		"adjacent":    topology.Shape{Packages: 2, CoresPerLLC: 4, ThreadsPerCore: 2, Numbering: topology.SiblingsAdjacent}.MustBuild(),
		"smt8":        topology.Shape{NUMAPerPackage: 2, CoresPerLLC: 3, ThreadsPerCore: 8}.MustBuild(),
		"largest":     topology.Shape{Packages: 2, NUMAPerPackage: 4, LLCsPerNUMA: 8, CoresPerLLC: 8, ThreadsPerCore: 2}.MustBuild(),
		"largest-smt": topology.Shape{Packages: 2, NUMAPerPackage: 8, LLCsPerNUMA: 64, CoresPerLLC: 1}.MustBuild(),
		"odd":         oddMachine(),
		"hybrid":      hybridMachine(),
		"no-nodes":    {CPUs: []topology.CPU{{ID: 1, NUMA: topology.NoNUMA}}, Kinds: []topology.Kind{""}},
	}
	for name, m := range all {
		if err := m.Validate(); err != nil {
			t.Fatalf("machine %s: %v", name, err)
		}
	}
	return all
}

// machineNames returns the names of all machines in order.
func machineNames(all map[string]*topology.Machine) []string { return slices.Sorted(maps.Keys(all)) }

// oddMachine has an LLC that spans NUMA nodes and packages, a node that spans packages, CPUs
// without a node, a node without CPUs, sparse ids, and offline and isolated CPUs.
func oddMachine() *topology.Machine {
	cpu := func(id, core, llc, numa, die, pkg int) topology.CPU {
		return topology.CPU{ID: cpuset.CPU(id), Core: topology.CoreID(core), LLC: topology.LLCID(llc),
			NUMA: topology.NUMAID(numa), Die: topology.DieID(die), Package: topology.PackageID(pkg)}
	}
	return &topology.Machine{
		CPUs: []topology.CPU{
			cpu(3, 70, 9, 2, 0, 1), cpu(4, 70, 9, 2, 0, 1),
			cpu(10, 5, 9, 5, 0, 4), cpu(17, 1000, 9, 5, 3, 4),
			cpu(18, 6, 11, -1, 3, 4), cpu(1023, 7, 12, 5, 3, 1),
		},
		NUMANodes: []topology.NUMANode{
			{ID: 2, CPUs: cpuset.Of(3, 4), LocalCPUs: cpuset.Of(3, 4), MemoryBytes: 1 << 40, Distances: []int{10, 21, 17}},
			{ID: 5, CPUs: cpuset.Of(10, 17, 1023), LocalCPUs: cpuset.Of(10, 17, 1023), Distances: []int{22, 10, 28}},
			{ID: 300, LocalCPUs: cpuset.Of(3, 4), MemoryBytes: 1<<64 - 1, Distances: []int{17, 28, 10}},
		},
		Offline:  cpuset.Of(0, 1, 2),
		Isolated: cpuset.Of(17),
		Kinds:    []topology.Kind{""},
	}
}

// hybridMachine has kinds of core in an order that does not follow from their names. One of the
// names has special characters of the format.
func hybridMachine() *topology.Machine {
	m := topology.Shape{CoresPerLLC: 6, ThreadsPerCore: 2, MemoryBytesNUMA: 1 << 34}.MustBuild()
	m.Kinds = []topology.Kind{topology.KindPerformance, "a b:c, %\xff", ""}
	for i, c := range m.CPUs {
		m.CPUs[i].Kind = m.Kinds[int(c.Core)/2]
	}
	return m
}
