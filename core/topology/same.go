package topology

import (
	"slices"
)

// SameCPUs reports whether two machines are equal except for memory sizes. Every CPU decision is
// then the same on both.
func (m *Machine) SameCPUs(other *Machine) bool {
	return slices.Equal(m.CPUs, other.CPUs) &&
		slices.EqualFunc(m.NUMANodes, other.NUMANodes, sameNode) &&
		m.Offline == other.Offline && m.Isolated == other.Isolated && slices.Equal(m.Kinds, other.Kinds)
}

func sameNode(a, b NUMANode) bool {
	return a.ID == b.ID && a.CPUs == b.CPUs && a.LocalCPUs == b.LocalCPUs && slices.Equal(a.Distances, b.Distances)
}
