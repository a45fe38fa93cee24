package sysfs

import (
	"fmt"
	"io/fs"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// numa are the NUMA nodes and the node of each CPU.
type numa struct {
	nodes []topology.NUMANode
	of    []topology.NUMAID // by CPU, NoNUMA if it is in no node
	file  []string          // by CPU: the file that says so
}

func (s scan) numa() (numa, error) {
	ids, err := s.nodeOnline()
	if err != nil {
		return numa{}, err
	}
	n := numa{of: slices.Repeat([]topology.NUMAID{topology.NoNUMA}, len(s.cpus)), file: slices.Repeat([]string{nodeRoot}, len(s.cpus))}
	if ids == nil { // a kernel without NUMA: one node, its memory unknown
		n.nodes = []topology.NUMANode{{CPUs: s.online, LocalCPUs: s.online, Distances: []int{topology.LocalDistance}}}
		n.of = make([]topology.NUMAID, len(s.cpus))
		return n, nil
	}
	for _, id := range ids {
		node, file, err := s.node(topology.NUMAID(id))
		if err != nil {
			return numa{}, err
		}
		if node.Distances, err = s.nodeDistance(node.ID, ids); err != nil {
			return numa{}, err
		}
		for i, c := range s.cpus {
			if !node.CPUs.Contains(c) {
				continue
			}
			if n.of[i] != topology.NoNUMA {
				return numa{}, contradiction("CPU %d is in two NUMA nodes, by %s and %s", c, n.file[i], file)
			}
			n.of[i], n.file[i] = node.ID, file
		}
		n.nodes = append(n.nodes, node)
	}
	return n, s.setLocalCPUs(n.nodes)
}

// nodeOnline reads /sys/devices/system/node/online, or on old kernels lists the directories nodeN
// there. It returns nil on a kernel without NUMA.
func (s scan) nodeOnline() ([]int, error) {
	ids, ok, err := readIfThere(s.tree, nodeRoot+"/online", parseNodes)
	if err != nil {
		return nil, err
	}
	if ok {
		if len(ids) == 0 {
			return nil, fmt.Errorf("%s/online: no NUMA node is online", nodeRoot)
		}
		return ids, nil
	}
	if there, err := s.exists(nodeRoot); err != nil || !there {
		return nil, err
	}
	if ids, err = s.numbered(nodeRoot, "node"); err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("read %s/online: %w, and no node is there either", nodeRoot, fs.ErrNotExist)
	}
	return ids, nil
}

// node reads a node and the name of the file that lists its CPUs:
// /sys/devices/system/node/nodeN/cpulist, or cpumap on old kernels. The size of its memory is from
// meminfo, or 0 if that is missing.
func (s scan) node(id topology.NUMAID) (topology.NUMANode, string, error) {
	cpus, file, err := s.readFirst(nodeDir(id)+"/cpulist", nodeDir(id)+"/cpumap")
	if err != nil {
		return topology.NUMANode{}, "", err
	}
	memory, _, err := readIfThere(s.tree, nodeDir(id)+"/meminfo", parseMemTotal)
	return topology.NUMANode{ID: id, CPUs: cpus.Intersection(s.online), MemoryBytes: memory}, file, err
}

// nodeDistance reads /sys/devices/system/node/nodeN/distance: the distances to the online nodes in
// ascending order. A row may also have a distance for every possible node, in captures in which a
// node was set offline manually. Then nodeDistance selects those to the online nodes.
func (s scan) nodeDistance(id topology.NUMAID, online []int) ([]int, error) {
	file := nodeDir(id) + "/distance"
	row, err := read(s.tree, file, parseDistances)
	if err != nil || len(row) == len(online) {
		return row, err
	}
	possible, _, err := readIfThere(s.tree, nodeRoot+"/possible", parseNodes)
	if err != nil {
		return nil, err
	}
	if len(row) != len(possible) {
		return nil, contradiction("%s has %d distances, but %s/online has %d nodes", file, len(row), nodeRoot, len(online))
	}
	var picked []int
	for i, n := range possible {
		if slices.Contains(online, n) {
			picked = append(picked, row[i])
		}
	}
	if len(picked) != len(online) {
		return nil, contradiction("%s/online has nodes that %s/possible does not have", nodeRoot, nodeRoot)
	}
	return picked, nil
}

// setLocalCPUs sets the CPUs for which the memory of each node is local.
func (s scan) setLocalCPUs(nodes []topology.NUMANode) error {
	for i := range nodes {
		n := &nodes[i]
		n.LocalCPUs = n.CPUs
		if !n.CPUs.IsEmpty() {
			continue
		}
		var err error
		if n.LocalCPUs, err = s.initiatorCPUs(n.ID, nodes); err != nil {
			return err
		}
		if n.LocalCPUs.IsEmpty() {
			n.LocalCPUs = nearestCPUs(*n, nodes)
		}
	}
	return nil
}

// accessClasses are the directories with the initiators of a node according to the firmware, the
// best first.
var accessClasses = []string{"access1", "access0"}

// initiatorCPUs returns the CPUs of the nodes in /sys/devices/system/node/nodeN/access1/initiators,
// which have the best access among the nodes with CPUs. Otherwise it uses access0, which also
// includes nodes without CPUs (Documentation/admin-guide/mm/numaperf.rst of Linux). The result is
// empty if the firmware names no initiators.
func (s scan) initiatorCPUs(id topology.NUMAID, nodes []topology.NUMANode) (cpuset.Set, error) {
	var cpus cpuset.Set
	for _, class := range accessClasses {
		initiators, err := s.numbered(nodeDir(id)+"/"+class+"/initiators", "node")
		if err != nil {
			return cpus, err
		}
		for _, n := range nodes {
			if slices.Contains(initiators, int(n.ID)) {
				cpus = cpus.Union(n.CPUs)
			}
		}
		if !cpus.IsEmpty() {
			break
		}
	}
	return cpus, nil
}

// nearestCPUs returns the CPUs of the nearest nodes that have CPUs.
func nearestCPUs(n topology.NUMANode, nodes []topology.NUMANode) cpuset.Set {
	var cpus cpuset.Set
	nearest := -1
	for i, other := range nodes {
		if other.CPUs.IsEmpty() {
			continue
		}
		if d := n.Distances[i]; nearest < 0 || d < nearest {
			nearest, cpus = d, other.CPUs
		} else if d == nearest {
			cpus = cpus.Union(other.CPUs)
		}
	}
	return cpus
}
