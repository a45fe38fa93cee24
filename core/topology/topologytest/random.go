// Package topologytest generates random machines for property tests.
//
// [Random] draws small machines that are as irregular as [topology.Machine] permits: cores of one,
// two, four or eight threads side by side, some of them offline; several kinds of core; sparse ids;
// CPUs without a NUMA node and nodes without CPUs; LLCs that span NUMA nodes and nodes that span
// packages; distances that are neither symmetric nor a metric. Half of the machines are properly
// nested (LLC in NUMA node in die in package), because code takes other paths on those.
// [RandomShape] draws regular machines.
//
// Draws shrink towards one core of one thread.
package topologytest

import (
	"slices"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// MaxCPUs is the largest number of online CPUs of a machine drawn by [Random]. A reference
// implementation can try all subsets of that many.
const MaxCPUs = 16

// Random draws a valid machine of 1 to [MaxCPUs] online CPUs.
func Random(t *rapid.T) *topology.Machine { return RandomUpTo(t, MaxCPUs) }

// RandomUpTo draws a valid machine of 1 to `most` online CPUs.
func RandomUpTo(t *rapid.T, most int) *topology.Machine {
	cores := drawCores(t, most)
	total := 0
	for _, c := range cores {
		total += c.online + c.offline
	}
	m := &topology.Machine{}
	ids := drawIDs(t, total)
	if rapid.Bool().Draw(t, "siblingsAdjacent") {
		slices.Sort(ids)
	}
	for _, c := range cores {
		for _, id := range ids[:c.online] {
			c.cpu.ID = id
			m.CPUs = append(m.CPUs, c.cpu)
		}
		for _, id := range ids[c.online : c.online+c.offline] {
			m.Offline.Add(id)
		}
		ids = ids[c.online+c.offline:]
	}
	slices.SortFunc(m.CPUs, func(a, b topology.CPU) int { return int(a.ID - b.ID) })
	m.Kinds = drawKindOrder(t, m.CPUs)
	m.NUMANodes = drawNodes(t, m.CPUs)
	if rapid.IntRange(0, 3).Draw(t, "isolate") == 3 {
		m.Isolated = Subset(t, m.Online(), "isolated")
	}
	if err := m.Validate(); err != nil {
		t.Fatalf("drew a machine that is not valid: %v", err)
	}
	return m
}

// Subset draws a subset of cpus.
func Subset(t *rapid.T, cpus cpuset.Set, label string) cpuset.Set {
	var all []cpuset.CPU
	for c := range cpus.All() {
		all = append(all, c)
	}
	take := rapid.SliceOfN(rapid.Bool(), len(all), len(all)).Draw(t, label)
	var s cpuset.Set
	for i, c := range all {
		if take[i] {
			s.Add(c)
		}
	}
	return s
}

// core is a core with its numbers of threads.
type core struct {
	cpu             topology.CPU
	online, offline int
}

// drawCores draws cores with at most `most` online threads together.
func drawCores(t *rapid.T, most int) []core {
	places := drawPlaces(t)
	threads := rapid.SampledFrom([]int{1, 2, 2, 4, 8}).Draw(t, "threadsPerCore")
	kinds := rapid.SampledFrom([][]topology.Kind{
		{""}, {""}, {topology.KindPerformance, topology.KindEfficiency}, {topology.KindPerformance},
		{topology.KindPerformance, "middle", topology.KindEfficiency},
		{topology.ClockKind("", 1), topology.ClockKind("", 2)},
		{topology.ClockKind(topology.KindPerformance, 1), topology.ClockKind(topology.KindPerformance, 2), topology.KindEfficiency},
	}).Draw(t, "kinds")
	coreStride := rapid.IntRange(1, 3).Draw(t, "coreStride")
	var cores []core
	room := most
	for i := range rapid.IntRange(1, most).Draw(t, "cores") {
		c := core{online: threads}
		if rapid.IntRange(0, 3).Draw(t, "irregularCore") == 3 {
			c.online = rapid.IntRange(0, threads).Draw(t, "online")
			c.offline = rapid.IntRange(0, threads-c.online).Draw(t, "offline")
		}
		if c.online = min(c.online, room); room == 0 {
			break
		}
		if i == 0 {
			c.online = max(c.online, 1)
		}
		room -= c.online
		c.cpu = places.draw(t)
		c.cpu.Core = topology.CoreID(i * coreStride)
		c.cpu.Kind = rapid.SampledFrom(kinds).Draw(t, "kind")
		cores = append(cores, c)
	}
	return cores
}

// drawIDs draws n different CPU ids in any order, sometimes with gaps.
func drawIDs(t *rapid.T, n int) []cpuset.CPU {
	var pool []cpuset.CPU
	first := cpuset.CPU(rapid.SampledFrom([]int{0, 0, 0, 1, 60}).Draw(t, "firstCPU"))
	for id := first; len(pool) < n; id++ {
		pool = append(pool, id)
		if rapid.IntRange(0, 15).Draw(t, "gap") == 15 {
			id += 5
		}
	}
	return rapid.Permutation(pool).Draw(t, "cpuIDs")
}

func drawKindOrder(t *rapid.T, cpus []topology.CPU) []topology.Kind {
	kinds := topology.KindsOf(cpus)
	if len(kinds) == 1 {
		return kinds
	}
	return rapid.Permutation(kinds).Draw(t, "kindOrder")
}

// Diff returns the differences of two machines, with CPU sets as lists; "" if they are equal.
func Diff(want, got *topology.Machine) string {
	return cmp.Diff(want, got, cmp.Transformer("list", cpuset.Set.String))
}
