package topology

import (
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
)

// Without returns the machine as it is while CPUs of it are offline.
func (m *Machine) Without(cpus cpuset.Set) *Machine {
	less := *m
	less.Offline, less.Isolated, less.NoHZFull = m.Offline.Union(cpus), m.Isolated.Difference(cpus), m.NoHZFull.Difference(cpus)
	less.CPUs = slices.DeleteFunc(slices.Clone(m.CPUs), func(c CPU) bool { return cpus.Contains(c.ID) })
	less.Kinds = slices.DeleteFunc(slices.Clone(m.Kinds), func(k Kind) bool {
		return !slices.ContainsFunc(less.CPUs, func(c CPU) bool { return c.Kind == k })
	})
	less.NUMANodes = slices.Clone(m.NUMANodes)
	for i := range less.NUMANodes {
		n := &less.NUMANodes[i]
		n.CPUs, n.LocalCPUs = n.CPUs.Difference(cpus), n.LocalCPUs.Difference(cpus)
	}
	return &less
}
