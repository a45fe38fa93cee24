package ledger

import (
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// site is what all claims of one node are judged against. It never changes.
type site struct {
	index   *placement.Index
	config  Config
	online  cpuset.Set
	offline cpuset.Set
	// nodes are the NUMA nodes in ascending order of id, with those CPUs that belong to none as one
	// more of the id NoNUMA.
	nodes []numaNode
	// nodeIDs are the ids of nodes.
	nodeIDs []topology.NUMAID
}

type numaNode struct {
	id   topology.NUMAID
	cpus cpuset.Set // online; empty for a node of memory only
}

func newSite(index *placement.Index, config Config) *site {
	m := index.Machine()
	s := &site{index: index, config: config, online: m.Online(), offline: m.Offline}
	s.config.Reserved = config.Reserved.bounded()
	s.nodes = make([]numaNode, 0, len(m.NUMANodes)+1)
	if homeless := m.CPUsOfNUMA(topology.NoNUMA); !homeless.IsEmpty() {
		s.nodes = append(s.nodes, numaNode{topology.NoNUMA, homeless})
	}
	for i := range m.NUMANodes {
		s.nodes = append(s.nodes, numaNode{m.NUMANodes[i].ID, m.NUMANodes[i].CPUs})
	}
	s.nodeIDs = make([]topology.NUMAID, len(s.nodes))
	for i := range s.nodes {
		s.nodeIDs[i] = s.nodes[i].id
	}
	return s
}

func (s *site) nodeAt(id topology.NUMAID) (int, bool) {
	return slices.BinarySearch(s.nodeIDs, id)
}

// nodesOf returns the nodes, as positions in s.nodes, that have some of the CPUs.
func (s *site) nodesOf(cpus cpuset.Set) []int {
	at := make([]int, 0, len(s.nodes))
	for i := range s.nodes {
		if s.nodes[i].cpus.Intersects(cpus) {
			at = append(at, i)
		}
	}
	return at
}

// ids translates positions in s.nodes.
func (s *site) ids(at []int) []topology.NUMAID {
	ids := make([]topology.NUMAID, len(at))
	for i, n := range at {
		ids[i] = s.nodes[n].id
	}
	return ids
}

// positions is the inverse of ids, for nodes that are there.
func (s *site) positions(ids []topology.NUMAID) []int {
	at := make([]int, len(ids))
	for i, id := range ids {
		at[i], _ = s.nodeAt(id)
	}
	return at
}

// cpusOf is the union of the CPUs of the nodes.
func (s *site) cpusOf(at []int) cpuset.Set {
	var all cpuset.Set
	for _, n := range at {
		all = all.Union(s.nodes[n].cpus)
	}
	return all
}
