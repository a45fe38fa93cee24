package topology_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/core/topology/topologytest"
)

// small returns a valid machine of CPUs 0-7 in 2 packages of 2 cores of 2 threads (siblings n and
// n+4), with NUMA nodes 0 and 1, and CPU 9 offline.
func small() *topology.Machine {
	m := topology.Shape{Packages: 2, CoresPerLLC: 2, ThreadsPerCore: 2}.MustBuild()
	m.Offline = cpuset.Of(9)
	return m
}

func TestValidate(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(m *topology.Machine)
		want  string
	}{
		{"no CPUs", func(m *topology.Machine) { m.CPUs = nil }, "no CPU is online"},
		{"CPU id too large", func(m *topology.Machine) { m.CPUs[7].ID = 1024 }, "CPU 1024: ids must be 0 to 1023"},
		{"CPU id negative", func(m *topology.Machine) { m.CPUs[0].ID = -1 }, "CPU -1: ids must be 0 to 1023"},
		{"CPU twice", func(m *topology.Machine) { m.CPUs[1].ID = 0 }, "CPU 0 is listed twice"},
		{"CPUs out of order", func(m *topology.Machine) { m.CPUs[1].ID = 3 }, "CPU 2 is listed after CPU 3"},
		{"core negative", func(m *topology.Machine) { m.CPUs[2].Core = -1 }, "CPU 2: core, llc, die and package must not be negative"},
		{"LLC negative", func(m *topology.Machine) { m.CPUs[2].LLC = -1 }, "CPU 2: core, llc, die and package must not be negative"},
		{"die negative", func(m *topology.Machine) { m.CPUs[2].Die = -1 }, "CPU 2: core, llc, die and package must not be negative"},
		{"package negative", func(m *topology.Machine) { m.CPUs[2].Package = -1 }, "CPU 2: core, llc, die and package must not be negative"},
		{"node below none", func(m *topology.Machine) { m.CPUs[2].NUMA = -2 }, "CPU 2: NUMA node -2 must be 0 or more, or -1 for none"},
		{"core in two LLCs", func(m *topology.Machine) { m.CPUs[4].LLC = 1 }, "CPUs 0 and 4 are threads of core 0 but differ in LLC (0, 1)"},
		{"core in two nodes", func(m *topology.Machine) { m.CPUs[4].NUMA = 1 }, "NUMA node (0, 1)"},
		{"core on two dies", func(m *topology.Machine) { m.CPUs[4].Die = 1 }, "die (0, 1)"},
		{"core in two packages", func(m *topology.Machine) { m.CPUs[4].Package = 1 }, "package (0, 1)"},
		{"core of two kinds", func(m *topology.Machine) { m.CPUs[4].Kind = "fast" }, `kind ("", "fast")`},
		{"node twice", func(m *topology.Machine) { m.NUMANodes[1].ID = 0 }, "NUMA node 0 is listed after node 0"},
		{"nodes out of order", func(m *topology.Machine) {
			m.NUMANodes[0], m.NUMANodes[1] = m.NUMANodes[1], m.NUMANodes[0]
		}, "NUMA node 0 is listed after node 1"},
		{"node negative", func(m *topology.Machine) { m.NUMANodes[0].ID = -1 }, "NUMA node -1 is listed after node -1"},
		{"node with too few CPUs", func(m *topology.Machine) { m.NUMANodes[0].CPUs.Remove(0) }, `NUMA node 0 lists CPUs "1,4-5", but the CPUs that name it are "0-1,4-5"`},
		{"node with too many CPUs", func(m *topology.Machine) { m.NUMANodes[0].CPUs.Add(7) }, `NUMA node 0 lists CPUs "0-1,4-5,7"`},
		{"node local elsewhere", func(m *topology.Machine) { m.NUMANodes[0].LocalCPUs = cpuset.Of(2) }, `NUMA node 0 has CPUs "0-1,4-5" but is said to be local to "2"`},
		{"memory local to offline CPUs", func(m *topology.Machine) {
			addMemoryNode(m, cpuset.Of(0, 9))
		}, `NUMA node 2 is said to be local to CPUs "9", which are not online`},
		{"too few distances", func(m *topology.Machine) { m.NUMANodes[1].Distances = []int{10} }, "NUMA node 1 has 1 distances, want one for each of the 2 nodes"},
		{"too many distances", func(m *topology.Machine) { m.NUMANodes[1].Distances = []int{10, 20, 20} }, "NUMA node 1 has 3 distances"},
		{"distance negative", func(m *topology.Machine) { m.NUMANodes[1].Distances[0] = -1 }, "NUMA node 1: distances [-1 10] must be 0 to 65536"},
		{"distance absurd", func(m *topology.Machine) { m.NUMANodes[1].Distances[0] = 1 << 17 }, "NUMA node 1: distances [131072 10] must be 0 to 65536"},
		{"node not listed", func(m *topology.Machine) {
			m.NUMANodes = m.NUMANodes[:1]
			m.NUMANodes[0].Distances = []int{10}
		}, `CPUs "2-3,6-7" name NUMA node 1, which is not listed`},
		{"kind not listed", func(m *topology.Machine) { m.Kinds = nil }, `CPU 0 is of kind "", which is not among the machine's kinds []`},
		{"kind without CPUs", func(m *topology.Machine) { m.Kinds = append(m.Kinds, "fast") }, `kind "fast" is listed without a CPU or twice`},
		{"kind twice", func(m *topology.Machine) { m.Kinds = append(m.Kinds, "") }, `kind "" is listed without a CPU or twice`},
		{"online and offline", func(m *topology.Machine) { m.Offline.Add(3) }, `CPUs "3" are both online and offline`},
		{"isolated offline", func(m *topology.Machine) { m.Isolated = cpuset.Of(0, 9) }, `isolated CPUs "9" are not online`},
		{"nohz_full offline", func(m *topology.Machine) { m.NoHZFull = cpuset.Of(0, 9) }, `nohz_full CPUs "9" are not online`},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := small()
			if err := m.Validate(); err != nil {
				t.Fatalf("before it is spoilt: %v", err)
			}
			test.spoil(m)
			err := m.Validate()
			if !errors.Is(err, topology.ErrInconsistent) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want ErrInconsistent with %q", err, test.want)
			}
		})
	}
}

// addMemoryNode adds node 2, which has no CPUs.
func addMemoryNode(m *topology.Machine, local cpuset.Set) {
	for i := range m.NUMANodes {
		m.NUMANodes[i].Distances = append(m.NUMANodes[i].Distances, 17)
	}
	m.NUMANodes = append(m.NUMANodes, topology.NUMANode{ID: 2, LocalCPUs: local, Distances: []int{17, 17, 10}})
}

// TestGroupsAgreeWithCPUs compares the groups and lookups of a machine with its list of CPUs.
func TestGroupsAgreeWithCPUs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := topologytest.Random(t)
		checkGroups(t, m, "cores", m.Cores(), func(c topology.CPU) topology.CoreID { return c.Core })
		checkGroups(t, m, "LLCs", m.LLCs(), func(c topology.CPU) topology.LLCID { return c.LLC })
		checkGroups(t, m, "dies", m.Dies(), func(c topology.CPU) topology.DieID { return c.Die })
		checkGroups(t, m, "packages", m.Packages(), func(c topology.CPU) topology.PackageID { return c.Package })
		var of cpuset.Set
		for _, k := range m.Kinds {
			of = of.Union(m.CPUsOfKind(k))
		}
		if of != m.Online() || m.Online().Len() != len(m.CPUs) {
			t.Fatalf("kinds have CPUs %q, online are %q of %d", of, m.Online(), len(m.CPUs))
		}
		checkNUMA(t, m, topologytest.Subset(t, m.Online(), "CPUs"))
		for id := cpuset.CPU(-1); id < 100; id++ {
			c, ok := m.CPU(id)
			if ok != m.Online().Contains(id) || ok && c.ID != id {
				t.Fatalf("CPU(%d) = %v, %v", id, c, ok)
			}
		}
	})
}

// checkNUMA checks lookups of CPUs by node and of nodes by CPU.
func checkNUMA(t *rapid.T, m *topology.Machine, some cpuset.Set) {
	var homed, found cpuset.Set
	for _, n := range m.NUMANodes {
		if got := m.CPUsOfNUMA(n.ID); got != n.CPUs {
			t.Fatalf("CPUsOfNUMA(%d) = %q, want %q", n.ID, got, n.CPUs)
		}
		if got, ok := m.NUMANode(n.ID); !ok || got.ID != n.ID {
			t.Fatalf("NUMANode(%d) = %v, %v", n.ID, got, ok)
		}
		homed = homed.Union(n.CPUs)
	}
	if got := m.CPUsOfNUMA(topology.NoNUMA); got != m.Online().Difference(homed) {
		t.Fatalf("CPUs %q belong to no node, want %q", got, m.Online().Difference(homed))
	}
	nodes := m.NUMANodesOf(some)
	for i, id := range nodes {
		if i > 0 && id <= nodes[i-1] || !m.CPUsOfNUMA(id).Intersects(some) {
			t.Fatalf("CPUs %q are of nodes %v", some, nodes)
		}
		found = found.Union(m.CPUsOfNUMA(id))
	}
	if !some.IsSubsetOf(found) {
		t.Fatalf("CPUs %q are of nodes %v, which have %q", some, nodes, found)
	}
}

func checkGroups[ID ~int](t *rapid.T, m *topology.Machine, name string, groups []topology.Group[ID], of func(topology.CPU) ID) {
	total := 0
	for i, g := range groups {
		if i > 0 && g.ID <= groups[i-1].ID {
			t.Fatalf("%s: %d stands after %d", name, g.ID, groups[i-1].ID)
		}
		total += g.CPUs.Len()
	}
	if total != len(m.CPUs) {
		t.Fatalf("%s have %d CPUs, want %d", name, total, len(m.CPUs))
	}
	for _, c := range m.CPUs {
		for _, g := range groups {
			if g.CPUs.Contains(c.ID) != (g.ID == of(c)) {
				t.Fatalf("%s: %d has CPUs %q, but CPU %d is in %d", name, g.ID, g.CPUs, c.ID, of(c))
			}
		}
	}
}

func TestDistance(t *testing.T) {
	m := topology.Shape{Packages: 2, NUMAPerPackage: 2}.MustBuild()
	for _, test := range []struct {
		a, b topology.NUMAID
		want int
	}{
		{0, 0, 10}, {0, 1, 12}, {1, 2, 32}, {3, 0, 32},
		{topology.NoNUMA, topology.NoNUMA, 10}, {topology.NoNUMA, 0, 32}, {0, 7, 32}, {7, 7, 10},
	} {
		if got := m.Distance(test.a, test.b); got != test.want {
			t.Errorf("Distance(%d, %d) = %d, want %d", test.a, test.b, got, test.want)
		}
	}
	near := topology.Shape{Packages: 2, FarDistance: 11}.MustBuild()
	if got := near.Distance(0, topology.NoNUMA); got != topology.RemoteDistance {
		t.Errorf("to an unknown node on a machine of small distances: %d, want %d", got, topology.RemoteDistance)
	}
	if n, ok := m.NUMANode(2); !ok || n.ID != 2 || n.CPUs != cpuset.Of(2) {
		t.Errorf("NUMANode(2) = %v, %v", n, ok)
	}
	if n, ok := m.NUMANode(4); ok {
		t.Errorf("NUMANode(4) = %v, want none", n)
	}
}
