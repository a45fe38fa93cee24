package topology

import (
	"cmp"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
)

// Group is a set of CPUs that share one part of a machine.
type Group[ID ~int] struct {
	ID   ID
	CPUs cpuset.Set
}

// Cores returns the physical cores with their online threads, by id.
func (m *Machine) Cores() []Group[CoreID] {
	return groupBy(m, func(c CPU) CoreID { return c.Core })
}

// LLCs returns the last-level caches with the online CPUs that share them, by id.
func (m *Machine) LLCs() []Group[LLCID] {
	return groupBy(m, func(c CPU) LLCID { return c.LLC })
}

// Dies returns the dies with their online CPUs, by id.
func (m *Machine) Dies() []Group[DieID] {
	return groupBy(m, func(c CPU) DieID { return c.Die })
}

// Packages returns the packages with their online CPUs, by id.
func (m *Machine) Packages() []Group[PackageID] {
	return groupBy(m, func(c CPU) PackageID { return c.Package })
}

// CPUsOfKind returns the online CPUs of one kind of core.
func (m *Machine) CPUsOfKind(kind Kind) cpuset.Set {
	var s cpuset.Set
	for _, c := range m.CPUs {
		if c.Kind == kind {
			s.Add(c.ID)
		}
	}
	return s
}

// CPUsOfNUMA returns the online CPUs of NUMA nodes; for NoNUMA, the online CPUs without a node.
func (m *Machine) CPUsOfNUMA(ids ...NUMAID) cpuset.Set {
	var s cpuset.Set
	for i := range m.CPUs {
		if slices.Contains(ids, m.CPUs[i].NUMA) {
			s.Add(m.CPUs[i].ID)
		}
	}
	return s
}

// NUMANodesOf returns the NUMA nodes of the given online CPUs in ascending order, including NoNUMA
// for CPUs without a node.
func (m *Machine) NUMANodesOf(cpus cpuset.Set) []NUMAID {
	ids := []NUMAID{}
	for i := range m.CPUs {
		if cpus.Contains(m.CPUs[i].ID) {
			ids = append(ids, m.CPUs[i].NUMA)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func groupBy[ID ~int](m *Machine, key func(CPU) ID) []Group[ID] {
	index := map[ID]int{}
	var groups []Group[ID]
	for _, c := range m.CPUs {
		id := key(c)
		i, ok := index[id]
		if !ok {
			i = len(groups)
			index[id] = i
			groups = append(groups, Group[ID]{ID: id})
		}
		groups[i].CPUs.Add(c.ID)
	}
	slices.SortFunc(groups, func(a, b Group[ID]) int { return cmp.Compare(a.ID, b.ID) })
	return groups
}
