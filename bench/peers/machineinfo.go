package main

import (
	"fmt"

	cadvisor "github.com/google/cadvisor/lib/model"
	kubecpuset "k8s.io/utils/cpuset"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// lastLevel is the level that cAdvisor is told of LLCs; it tells caches that
// several cores share by a level above 2.
const lastLevel = 3

// machineInfo describes a machine as cAdvisor does to the kubelet
// (lib/utils/sysinfo, v0.60.5): an LLC is a core's "uncore cache" unless it has
// exactly as many CPUs as the NUMA node. It returns an error for CPUs without a
// NUMA node, which these words cannot express.
func machineInfo(m *topology.Machine) (*cadvisor.MachineInfo, error) {
	info := &cadvisor.MachineInfo{
		NumCores:         len(m.CPUs), // cAdvisor's word for logical CPUs
		NumPhysicalCores: len(m.Cores()),
		NumSockets:       len(m.Packages()),
	}
	llcCPUs := map[topology.LLCID]int{}
	for _, llc := range m.LLCs() {
		llcCPUs[llc.ID] = llc.CPUs.Len()
	}
	nodeAt := map[topology.NUMAID]int{}
	for i, n := range m.NUMANodes {
		nodeAt[n.ID] = i
		node := cadvisor.Node{Id: int(n.ID), Memory: n.MemoryBytes}
		for _, d := range n.Distances {
			node.Distances = append(node.Distances, uint64(d))
		}
		info.Topology = append(info.Topology, node)
	}
	for _, group := range m.Cores() {
		first, _ := m.CPU(group.CPUs.First())
		at, ok := nodeAt[first.NUMA]
		if !ok {
			return nil, fmt.Errorf("tell the kubelet of the machine: CPU %d has no NUMA node", first.ID)
		}
		core := cadvisor.Core{Id: int(first.Core), SocketID: int(first.Package)}
		for cpu := range group.CPUs.All() {
			core.Threads = append(core.Threads, int(cpu))
		}
		llc := cadvisor.Cache{Id: int(first.LLC), Type: "Unified", Level: lastLevel}
		node := &info.Topology[at]
		switch {
		case llcCPUs[first.LLC] != m.NUMANodes[at].CPUs.Len():
			core.UncoreCaches = []cadvisor.Cache{llc}
		case len(node.Caches) == 0:
			node.Caches = []cadvisor.Cache{llc}
		}
		node.Cores = append(node.Cores, core)
	}
	return info, nil
}

func toKube(s cpuset.Set) kubecpuset.CPUSet {
	var ids []int
	for cpu := range s.All() {
		ids = append(ids, int(cpu))
	}
	return kubecpuset.New(ids...)
}

func fromKube(s kubecpuset.CPUSet) cpuset.Set {
	var cpus cpuset.Set
	for _, id := range s.UnsortedList() {
		cpus.Add(cpuset.CPU(id))
	}
	return cpus
}
