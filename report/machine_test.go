package report_test

import (
	"bufio"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/test/must"
)

// parseMachine builds a machine from lines such as
//
//	shape packages=2 numa=4 llcs=4 cores=4 threads=2 memory=64GiB adjacent
//	set 0-7 llc=3 numa=-1 kind=performance    fields of some CPUs
//	offline 3,7                               takes CPUs away
//	absent 3,7                                the same without a trace
//	isolated 4-5, nohz-full 4-5
//	memory-only 2 64GiB local=0-3             one more NUMA node
//	distance 0 2 40                           both ways
//	llc-size 0 32MiB
func parseMachine(t *testing.T, text string) *topology.Machine {
	t.Helper()
	m := &topology.Machine{}
	for scanner := bufio.NewScanner(strings.NewReader(text)); scanner.Scan(); {
		words := strings.Fields(scanner.Text())
		if len(words) == 0 {
			continue
		}
		if words[0] == "shape" {
			m = parseShape(t, words[1:])
			continue
		}
		apply, ok := edits()[words[0]]
		if !ok {
			t.Fatalf("unknown line %q", scanner.Text())
		}
		apply(t, m, words[1:])
	}
	m.Kinds = topology.KindsOf(m.CPUs)
	fillNodes(m)
	must.Do(t, m.Validate())
	return m
}

func edits() map[string]func(*testing.T, *topology.Machine, []string) {
	return map[string]func(*testing.T, *topology.Machine, []string){
		"set": setFields,
		"offline": func(_ *testing.T, m *topology.Machine, args []string) {
			m.Offline = m.Offline.Union(cpuset.MustParse(args[0]))
			removeCPUs(m, cpuset.MustParse(args[0]))
		},
		"absent": func(_ *testing.T, m *topology.Machine, args []string) {
			removeCPUs(m, cpuset.MustParse(args[0]))
		},
		"isolated": func(_ *testing.T, m *topology.Machine, args []string) {
			m.Isolated = cpuset.MustParse(args[0])
		},
		"nohz-full": func(_ *testing.T, m *topology.Machine, args []string) {
			m.NoHZFull = cpuset.MustParse(args[0])
		},
		"llc-size": func(t *testing.T, m *topology.Machine, args []string) {
			if m.LLCBytes == nil {
				m.LLCBytes = map[topology.LLCID]uint64{}
			}
			m.LLCBytes[topology.LLCID(number(t, args[0]))] = size(t, args[1])
		},
		"memory-only": func(t *testing.T, m *topology.Machine, args []string) {
			n := topology.NUMANode{ID: topology.NUMAID(number(t, args[0])), MemoryBytes: size(t, args[1])}
			if len(args) > 2 {
				n.LocalCPUs = cpuset.MustParse(strings.TrimPrefix(args[2], "local="))
			}
			m.NUMANodes = append(m.NUMANodes, n)
			fillNodes(m)
		},
		"distance": func(t *testing.T, m *topology.Machine, args []string) {
			fillNodes(m)
			at := func(id string) int {
				return slices.IndexFunc(m.NUMANodes, func(n topology.NUMANode) bool {
					return n.ID == topology.NUMAID(number(t, id))
				})
			}
			a, b := at(args[0]), at(args[1])
			m.NUMANodes[a].Distances[b] = number(t, args[2])
			m.NUMANodes[b].Distances[a] = number(t, args[2])
		},
	}
}

func parseShape(t *testing.T, args []string) *topology.Machine {
	t.Helper()
	var s topology.Shape
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "adjacent":
			s.Numbering = topology.SiblingsAdjacent
		case "memory":
			s.MemoryBytesNUMA = size(t, value)
		default:
			*s.Count(name) = number(t, value)
		}
	}
	return s.MustBuild()
}

func setFields(t *testing.T, m *topology.Machine, args []string) {
	cpus := cpuset.MustParse(args[0])
	for i := range m.CPUs {
		c := &m.CPUs[i]
		if !cpus.Contains(c.ID) {
			continue
		}
		for _, arg := range args[1:] {
			name, value, _ := strings.Cut(arg, "=")
			switch name {
			case "core":
				c.Core = topology.CoreID(number(t, value))
			case "llc":
				c.LLC = topology.LLCID(number(t, value))
			case "numa":
				c.NUMA = topology.NUMAID(number(t, value))
			case "die":
				c.Die = topology.DieID(number(t, value))
			case "package":
				c.Package = topology.PackageID(number(t, value))
			case "kind":
				c.Kind = topology.Kind(value)
			default:
				t.Fatalf("unknown field %q", name)
			}
		}
	}
	fillNodes(m)
}

func removeCPUs(m *topology.Machine, cpus cpuset.Set) {
	m.CPUs = slices.DeleteFunc(m.CPUs, func(c topology.CPU) bool { return cpus.Contains(c.ID) })
}

// fillNodes makes the NUMA nodes agree with the CPUs, and gives new ones distances.
func fillNodes(m *topology.Machine) {
	for i := len(m.NUMANodes) - 1; i >= 0; i-- {
		if n := &m.NUMANodes[i]; !n.CPUs.IsEmpty() && m.CPUsOfNUMA(n.ID).IsEmpty() {
			removeNode(m, i) // it has lost its last CPU
		}
	}
	for _, c := range m.CPUs {
		if _, ok := m.NUMANode(c.NUMA); !ok && c.NUMA != topology.NoNUMA {
			m.NUMANodes = append(m.NUMANodes, topology.NUMANode{ID: c.NUMA})
		}
	}
	for i := range m.NUMANodes {
		n := &m.NUMANodes[i]
		if n.CPUs = m.CPUsOfNUMA(n.ID); !n.CPUs.IsEmpty() {
			n.LocalCPUs = n.CPUs
		}
		for len(n.Distances) < len(m.NUMANodes) {
			distance := topology.RemoteDistance
			if len(n.Distances) == i {
				distance = topology.LocalDistance
			}
			n.Distances = append(n.Distances, distance)
		}
	}
}

func removeNode(m *topology.Machine, i int) {
	m.NUMANodes = slices.Delete(m.NUMANodes, i, i+1)
	for j := range m.NUMANodes {
		m.NUMANodes[j].Distances = slices.Delete(m.NUMANodes[j].Distances, i, i+1)
	}
}

func number(t *testing.T, text string) int {
	t.Helper()
	return must.Get(strconv.Atoi(text))(t)
}

func size(t *testing.T, text string) uint64 {
	t.Helper()
	var n uint64
	var unit string
	if _, err := fmt.Sscanf(text, "%d%s", &n, &unit); err != nil {
		t.Fatalf("size %q: %v", text, err)
	}
	return n << map[string]uint{"MiB": 20, "GiB": 30, "TiB": 40}[unit]
}
