package sysfs

import (
	"fmt"
	"strings"
	"testing/fstest"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// machineTree returns the /sys tree that a recent kernel has for a machine, the inverse of Read. It
// requires dies that are within packages.
func machineTree(m *topology.Machine) fstest.MapFS {
	tree := fstest.MapFS{}
	write := func(file, format string, args ...any) {
		tree[file] = &fstest.MapFile{Data: []byte(fmt.Sprintf(format, args...) + "\n")}
	}
	write(cpuRoot+"/online", "%s", m.Online())
	write(cpuRoot+"/present", "%s", m.Online().Union(m.Offline))
	write(cpuRoot+"/isolated", "%s", m.Isolated)
	for c := range m.Offline.All() {
		write(cpuDir(c)+"/online", "0")
	}
	cores, llcs := membersOf(m.Cores()), membersOf(m.LLCs())
	dies, pkgs := membersOf(m.Dies()), membersOf(m.Packages())
	for _, c := range m.CPUs {
		dir := cpuDir(c.ID)
		write(dir+"/online", "1")
		write(dir+"/topology/core_id", "%d", c.Core)
		write(dir+"/topology/core_cpus_list", "%s", cores[c.Core])
		write(dir+"/topology/die_id", "%d", c.Die)
		write(dir+"/topology/die_cpus_list", "%s", dies[c.Die])
		write(dir+"/topology/physical_package_id", "%d", c.Package)
		write(dir+"/topology/package_cpus_list", "%s", pkgs[c.Package])
		for index, cache := range []struct {
			level int
			kind  cacheType
			cpus  cpuset.Set
		}{
			{1, dataCache, cores[c.Core]}, {1, instructionCache, cores[c.Core]},
			{2, unifiedCache, cores[c.Core]}, {3, unifiedCache, llcs[c.LLC]},
		} {
			dir := fmt.Sprintf("%s/cache/index%d", dir, index)
			write(dir+"/level", "%d", cache.level)
			write(dir+"/type", "%s", cache.kind)
			write(dir+"/shared_cpu_list", "%s", cache.cpus)
		}
	}
	writeKinds(m, write)
	writeNodes(m, write)
	return tree
}

func membersOf[ID ~int](groups []topology.Group[ID]) map[ID]cpuset.Set {
	members := map[ID]cpuset.Set{}
	for _, g := range groups {
		members[g.ID] = g.CPUs
	}
	return members
}

// writeKinds gives the kinds of core capacities that fall by a quarter each.
func writeKinds(m *topology.Machine, write func(string, string, ...any)) {
	capacity := 1024
	for _, k := range m.Kinds {
		for c := range m.CPUsOfKind(k).All() {
			write(cpuDir(c)+"/cpu_capacity", "%d", capacity)
		}
		capacity = capacity * 3 / 4
	}
}

// writeNodes writes the nodes. The initiators of a memory-only node are the nodes whose CPUs are
// all local to it.
func writeNodes(m *topology.Machine, write func(string, string, ...any)) {
	var online cpuset.Set
	for _, n := range m.NUMANodes {
		online.Add(cpuset.CPU(n.ID))
		dir := nodeDir(n.ID)
		write(dir+"/cpulist", "%s", n.CPUs)
		write(dir+"/distance", "%s", strings.Trim(fmt.Sprint(n.Distances), "[]"))
		write(dir+"/meminfo", "Node %d MemTotal: %8d kB", n.ID, n.MemoryBytes/1024)
		for _, near := range m.NUMANodes {
			if n.CPUs.IsEmpty() && near.CPUs.IsSubsetOf(n.LocalCPUs) {
				write(fmt.Sprintf("%s/access1/initiators/node%d/uevent", dir, near.ID), "")
			}
		}
	}
	if !online.IsEmpty() {
		write(nodeRoot+"/online", "%s", online)
	}
}
