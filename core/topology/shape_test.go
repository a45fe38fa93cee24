package topology_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/core/topology/topologytest"
	"pinfold.dev/pinfold/test/must"
)

// outline returns the first groups of each kind as CPU lists.
type outline struct {
	cpus, cores, llcs, nodes, dies, packages int
	firstCore, lastCore, firstLLC            string
	firstNode, firstPackage, lastPackage     string
	distances                                string
}

func outlineOf(m *topology.Machine) outline {
	cores, packages, nodes := m.Cores(), m.Packages(), m.NUMANodes
	row := []string{}
	for _, n := range nodes {
		row = append(row, string(rune('a'+m.Distance(nodes[0].ID, n.ID)-10)))
	}
	return outline{
		cpus: len(m.CPUs), cores: len(cores), llcs: len(m.LLCs()), nodes: len(nodes), dies: len(m.Dies()), packages: len(packages),
		firstCore: cores[0].CPUs.String(), lastCore: cores[len(cores)-1].CPUs.String(), firstLLC: m.LLCs()[0].CPUs.String(),
		firstNode: nodes[0].CPUs.String(), firstPackage: packages[0].CPUs.String(), lastPackage: packages[len(packages)-1].CPUs.String(),
		distances: strings.Join(row, ""),
	}
}

func TestShapes(t *testing.T) {
	for _, test := range []struct {
		name  string
		shape topology.Shape
		want  outline
	}{
		{"104 CPUs: siblings n and n+52", topology.Intel104(), outline{cpus: 104, cores: 52, llcs: 2, nodes: 2, dies: 2, packages: 2,
			firstCore: "0,52", lastCore: "51,103", firstLLC: "0-25,52-77", firstNode: "0-25,52-77",
			firstPackage: "0-25,52-77", lastPackage: "26-51,78-103", distances: "al"}},
		{"256 CPUs: siblings n and n+128", topology.AMD256(), outline{cpus: 256, cores: 128, llcs: 32, nodes: 8, dies: 2, packages: 2,
			firstCore: "0,128", lastCore: "127,255", firstLLC: "0-3,128-131", firstNode: "0-15,128-143",
			firstPackage: "0-63,128-191", lastPackage: "64-127,192-255", distances: "accc" + strings.Repeat("w", 4)}},
		{"siblings adjacent", topology.Shape{Packages: 2, CoresPerLLC: 2, ThreadsPerCore: 4, Numbering: topology.SiblingsAdjacent},
			outline{cpus: 16, cores: 4, llcs: 2, nodes: 2, dies: 2, packages: 2, firstCore: "0-3", lastCore: "12-15", firstLLC: "0-7",
				firstNode: "0-7", firstPackage: "0-7", lastPackage: "8-15", distances: "al"}},
		{"nothing said", topology.Shape{}, outline{cpus: 1, cores: 1, llcs: 1, nodes: 1, dies: 1, packages: 1, firstCore: "0", lastCore: "0",
			firstLLC: "0", firstNode: "0", firstPackage: "0", lastPackage: "0", distances: "a"}},
		{"own distances", topology.Shape{Packages: 2, NUMAPerPackage: 2, NearDistance: 11, FarDistance: 20},
			outline{cpus: 4, cores: 4, llcs: 4, nodes: 4, dies: 2, packages: 2, firstCore: "0", lastCore: "3", firstLLC: "0",
				firstNode: "0", firstPackage: "0-1", lastPackage: "2-3", distances: "abkk"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := must.Get(test.shape.Build())(t)
			must.Do(t, m.Validate())
			if got := outlineOf(m); got != test.want {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}

func TestDrawnShapesAreValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := topologytest.RandomShape(t, cpuset.MaxCPUs)
		m := must.Get(shape.Build())(t)
		must.Do(t, m.Validate())
		for _, core := range m.Cores() {
			if core.CPUs.Len() != shape.ThreadsPerCore {
				t.Fatalf("core %d has CPUs %q, want %d of them", core.ID, core.CPUs, shape.ThreadsPerCore)
			}
		}
		for _, llc := range m.LLCs() {
			if llc.CPUs.Len() != shape.CoresPerLLC*shape.ThreadsPerCore {
				t.Fatalf("LLC %d has CPUs %q", llc.ID, llc.CPUs)
			}
		}
		for _, n := range m.NUMANodes {
			if n.MemoryBytes != shape.MemoryBytesNUMA {
				t.Fatalf("node %d has %d bytes", n.ID, n.MemoryBytes)
			}
		}
	})
}

func TestImpossibleShapes(t *testing.T) {
	for name, test := range map[string]struct {
		shape topology.Shape
		want  string
	}{
		"negative":          {topology.Shape{Packages: -1}, "a count of -1 is not between 1 and 1024"},
		"one count too big": {topology.Shape{CoresPerLLC: 1025}, "a count of 1025 is not between 1 and 1024"},
		"overflowing":       {topology.Shape{Packages: 1 << 62, CoresPerLLC: 4}, "is not between 1 and 1024"},
		"too many CPUs":     {topology.Shape{Packages: 2, CoresPerLLC: 257, ThreadsPerCore: 2}, "more than 1024 CPUs"},
	} {
		m, err := test.shape.Build()
		if m != nil || err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: machine %v, error %v, want %q", name, m, err, test.want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("MustBuild of an impossible shape does not panic")
		}
	}()
	topology.Shape{Packages: -1}.MustBuild()
}
