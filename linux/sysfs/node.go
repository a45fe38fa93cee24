package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// numa reads the NUMA nodes, and returns the node of each CPU, NoNUMA if it is in none. A kernel
// without NUMA has one node, its memory unknown.
func (s scan) numa(cores grouping) (nodes []topology.NUMANode, of []topology.NUMAID) {
	online := s.nodeOnline()
	if online == nil {
		one := topology.NUMANode{CPUs: s.online, LocalCPUs: s.online, Distances: []int{topology.LocalDistance}}
		return []topology.NUMANode{one}, make([]topology.NUMAID, len(s.cpus))
	}
	for _, id := range online {
		id := topology.NUMAID(id)
		memory, _ := readOr(s.tree, "the size of the memory is unknown", nodeDir(id)+"/meminfo", parseMemTotal)
		nodes = append(nodes, topology.NUMANode{ID: id, MemoryBytes: memory})
	}
	nodes, of = s.nodesOfCPUs(cores, nodes)
	for i := range nodes {
		n := &nodes[i]
		for j, c := range s.cpus {
			if of[j] == n.ID {
				n.CPUs.Add(c)
			}
		}
		n.Distances = s.nodeDistance(n.ID, online, nodes)
	}
	s.setLocalCPUs(nodes)
	return nodes, of
}

// nodeOnline reads /sys/devices/system/node/online, or else lists the directories nodeN there. It
// returns nil on a kernel without NUMA.
func (s scan) nodeOnline() []int {
	const assumed = "the nodes that have a directory count as online"
	ids, listed := readOr(s.tree, assumed, nodeRoot+"/online", parseNodes)
	if len(ids) > 0 {
		return ids
	}
	if listed {
		s.mend(assumed, "%s/online: no NUMA node is online", nodeRoot)
	}
	for _, n := range s.numberedOr("all CPUs count as one NUMA node", nodeRoot, "node") {
		if n < maxNodes {
			ids = append(ids, n)
		}
	}
	if there, err := s.exists(nodeRoot); len(ids) == 0 && (there || err != nil) {
		s.mend("all CPUs count as one NUMA node", "%s has no directory of a NUMA node", nodeRoot)
	}
	return ids
}

// nodesOfCPUs returns the node of each CPU, by the lists of the nodes. Nodes with the same CPUs are
// one node with the memory of all: emulated nodes (numa=fake), which have all CPUs each. A CPU of
// two other nodes is in the first one. The only node without a list has the CPUs without a node.
func (s scan) nodesOfCPUs(cores grouping, all []topology.NUMANode) (nodes []topology.NUMANode, of []topology.NUMAID) {
	labels := slices.Repeat([]int{unknown}, len(s.cpus))
	with := map[cpuset.Set]int{} // CPUs of a node to its index in nodes
	var unlisted []topology.NUMAID
	for _, n := range all {
		cpus, listed := s.nodeCPUs(n.ID)
		if !listed {
			unlisted = append(unlisted, n.ID)
		}
		if same, ok := with[cpus]; ok && !cpus.IsEmpty() {
			s.mend("nodes with the same CPUs are one node", "NUMA nodes %d and %d both have CPUs %s", nodes[same].ID, n.ID, cpus)
			nodes[same].MemoryBytes += n.MemoryBytes
			continue
		}
		with[cpus] = len(nodes)
		nodes = append(nodes, n)
		for c := range cpus.All() {
			if label := &labels[s.at[c]]; *label == unknown {
				*label = int(n.ID)
			} else {
				s.mend("such a CPU is in the first one", "CPU %d is in the NUMA nodes %d and %d", c, *label, n.ID)
			}
		}
	}
	s.placeRest(labels, nodes, unlisted)
	of = make([]topology.NUMAID, len(s.cpus))
	for i, label := range s.wholeCores("NUMA node", cores, labels) {
		of[i] = topology.NUMAID(label) // NoNUMA is unknown
	}
	return nodes, of
}

// placeRest gives the CPUs without a node to the only node without a list, or if no CPU has a node,
// to the first one. Otherwise their node may be offline.
func (s scan) placeRest(labels []int, nodes []topology.NUMANode, unlisted []topology.NUMAID) {
	rest := nodes[0].ID
	switch {
	case len(unlisted) == 1:
		rest = unlisted[0]
	case slices.ContainsFunc(labels, func(label int) bool { return label != unknown }):
		rest = topology.NoNUMA
	}
	var cpus cpuset.Set
	for i, c := range s.cpus {
		if labels[i] == unknown {
			labels[i] = int(rest)
			cpus.Add(c)
		}
	}
	switch {
	case cpus.IsEmpty():
	case rest == topology.NoNUMA:
		s.mend("no memory is local to them", "CPUs %s are in no NUMA node that is online", cpus)
	default:
		s.mend("the node has the CPUs of no other node", "%s: the CPUs of the node are not known", nodeDir(rest))
	}
}

// nodeCPUs reads the online CPUs of a node from /sys/devices/system/node/nodeN/cpulist, or cpumap
// on old kernels. listed is false if neither can be read.
func (s scan) nodeCPUs(id topology.NUMAID) (cpus cpuset.Set, listed bool) {
	cpus, _, err := s.readFirst(nodeDir(id)+"/cpulist", nodeDir(id)+"/cpumap")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.notes.add("such lists of nodes are ignored", err)
	}
	return cpus.Intersection(s.online), err == nil
}

// nodeDistance reads /sys/devices/system/node/nodeN/distance: the distances to the online nodes in
// ascending order. A row may also have a distance for every possible node, in captures in which a
// node was set offline manually. nodeDistance selects those to the given nodes.
func (s scan) nodeDistance(id topology.NUMAID, online []int, nodes []topology.NUMANode) []int {
	row, err := read(s.tree, nodeDir(id)+"/distance", parseDistances)
	columns := online
	if err == nil && len(row) != len(online) {
		possible, _ := readOr(s.tree, "only online nodes are possible", nodeRoot+"/possible", parseNodes)
		if columns = possible; len(row) != len(columns) {
			err = fmt.Errorf("%s/distance has %d distances for %d online nodes", nodeDir(id), len(row), len(online))
		}
	}
	var picked []int
	for _, n := range nodes {
		if i := slices.Index(columns, int(n.ID)); err == nil && i >= 0 {
			picked = append(picked, row[i])
		}
	}
	if len(picked) == len(nodes) {
		return picked
	}
	if err == nil {
		err = fmt.Errorf("%s/distance has no distances to some online nodes", nodeDir(id))
	}
	if len(nodes) > 1 || !errors.Is(err, fs.ErrNotExist) { // the distance of a node to itself needs no file
		s.notes.add(fmt.Sprintf("the distances are %d within a NUMA node and %d between two", topology.LocalDistance, topology.RemoteDistance), err)
	}
	return defaultDistances(id, nodes)
}

func defaultDistances(id topology.NUMAID, nodes []topology.NUMANode) []int {
	row := make([]int, len(nodes))
	for i, n := range nodes {
		if row[i] = topology.RemoteDistance; n.ID == id {
			row[i] = topology.LocalDistance
		}
	}
	return row
}

// setLocalCPUs sets the CPUs for which the memory of each node is local: those of a memory-only
// node are those of its initiators, or else those of the nearest nodes.
func (s scan) setLocalCPUs(nodes []topology.NUMANode) {
	for i := range nodes {
		n := &nodes[i]
		if n.LocalCPUs = n.CPUs; n.CPUs.IsEmpty() {
			n.LocalCPUs = s.initiatorCPUs(n.ID, nodes)
		}
		if n.LocalCPUs.IsEmpty() {
			n.LocalCPUs = nearestCPUs(*n, nodes)
		}
	}
}

// accessClasses are the directories with the initiators of a node according to the firmware, the
// best first.
var accessClasses = []string{"access1", "access0"}

// initiatorCPUs returns the CPUs of the nodes in /sys/devices/system/node/nodeN/access1/initiators,
// which have the best access among the nodes with CPUs. Otherwise it uses access0, which also
// includes nodes without CPUs (Documentation/admin-guide/mm/numaperf.rst of Linux). The result is
// empty if the firmware names no initiators.
func (s scan) initiatorCPUs(id topology.NUMAID, nodes []topology.NUMANode) (cpus cpuset.Set) {
	for _, class := range accessClasses {
		initiators := s.numberedOr("the nearest CPUs are local to the node", nodeDir(id)+"/"+class+"/initiators", "node")
		for _, n := range nodes {
			if slices.Contains(initiators, int(n.ID)) {
				cpus = cpus.Union(n.CPUs)
			}
		}
		if !cpus.IsEmpty() {
			break
		}
	}
	return cpus
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
