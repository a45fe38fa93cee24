package ledger

import (
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// site is the machine and the configuration of a node. It is immutable.
type site struct {
	index  *placement.Index
	config Config
	online cpuset.Set
	// balanced are the online CPUs that are not isolated: only these are shared or allocated.
	balanced cpuset.Set
	offline  cpuset.Set
	// nodeIDs are the ids of the NUMA nodes, ascending. CPUs without a node form one more node with
	// the id NoNUMA.
	nodeIDs []topology.NUMAID
	nodes   []cpuset.Set // the online CPUs of each node; empty for a node of memory only
}

func newSite(index *placement.Index, config Config) *site {
	m := index.Machine()
	s := &site{index: index, config: config, online: m.Online(), balanced: m.Balanced(), offline: m.Offline}
	s.config.Reserved = config.Reserved.bounded()
	s.nodeIDs = make([]topology.NUMAID, 0, len(m.NUMANodes)+1)
	s.nodes = make([]cpuset.Set, 0, len(m.NUMANodes)+1)
	if rest := m.CPUsOfNUMA(topology.NoNUMA); !rest.IsEmpty() {
		s.nodeIDs, s.nodes = append(s.nodeIDs, topology.NoNUMA), append(s.nodes, rest)
	}
	for i := range m.NUMANodes {
		s.nodeIDs, s.nodes = append(s.nodeIDs, m.NUMANodes[i].ID), append(s.nodes, m.NUMANodes[i].CPUs)
	}
	return s
}

func (s *site) nodeAt(id topology.NUMAID) (int, bool) {
	return slices.BinarySearch(s.nodeIDs, id)
}

// nodesOf returns the positions in s.nodes of the nodes that have some of the CPUs.
func (s *site) nodesOf(cpus cpuset.Set) []int {
	at := make([]int, 0, len(s.nodes))
	for i := range s.nodes {
		if s.nodes[i].Intersects(cpus) {
			at = append(at, i)
		}
	}
	return at
}

// ids returns the ids of the nodes at the given positions in s.nodes.
func (s *site) ids(at []int) []topology.NUMAID {
	ids := make([]topology.NUMAID, len(at))
	for i, n := range at {
		ids[i] = s.nodeIDs[n]
	}
	return ids
}

// positions is the inverse of ids. All nodes must exist.
func (s *site) positions(ids []topology.NUMAID) []int {
	at := make([]int, len(ids))
	for i, id := range ids {
		at[i], _ = s.nodeAt(id)
	}
	return at
}

// cpusOf returns the CPUs of the nodes at the given positions.
func (s *site) cpusOf(at []int) cpuset.Set {
	var all cpuset.Set
	for _, n := range at {
		all = all.Union(s.nodes[n])
	}
	return all
}
