package topology

import (
	"cmp"
	"fmt"

	"pinfold.dev/pinfold/core/cpuset"
)

// Numbering is the order in which firmware and kernel number the threads of a machine.
type Numbering int

const (
	// SiblingsApart numbers the first threads of all cores, then the second threads, and so on:
	// core c has the CPUs c, c+cores, .... Linux does this on x86 servers.
	SiblingsApart Numbering = iota
	// SiblingsAdjacent numbers core by core: CPUs 0 and 1 are one core. It is common in virtual
	// machines and on Arm and POWER.
	SiblingsAdjacent
)

// Shape is a regular machine. Every count is per parent; 0 means 1, so Shape{CoresPerLLC: 8} is a
// machine of 8 CPUs.
type Shape struct {
	Packages        int
	NUMAPerPackage  int
	LLCsPerNUMA     int
	CoresPerLLC     int
	ThreadsPerCore  int
	Numbering       Numbering
	MemoryBytesNUMA uint64 // memory of each NUMA node
	// NearDistance is the distance between NUMA nodes of one package (default 12), FarDistance that
	// between packages (default 32 if a package has several NUMA nodes, else 21).
	NearDistance, FarDistance int
}

// Intel104 returns the shape of a machine with 104 CPUs: 2 packages of 26 cores and 2 threads, one
// NUMA node and one LLC per package, siblings n and n+52 (Xeon Platinum 8269CY).
func Intel104() Shape {
	return Shape{Packages: 2, CoresPerLLC: 26, ThreadsPerCore: 2, MemoryBytesNUMA: 192 << 30}
}

// AMD256 returns the shape of a machine with 256 CPUs: 2 packages of 4 NUMA nodes of 4 LLCs of 4
// cores of 2 threads, siblings n and n+128 (EPYC 7H12, NPS4).
func AMD256() Shape {
	return Shape{Packages: 2, NUMAPerPackage: 4, LLCsPerNUMA: 4, CoresPerLLC: 4, ThreadsPerCore: 2, MemoryBytesNUMA: 64 << 30}
}

// Count returns the count of this name: packages, numa, llcs, cores or threads; nil if there is
// none.
func (s *Shape) Count(name string) *int {
	return map[string]*int{"packages": &s.Packages, "numa": &s.NUMAPerPackage, "llcs": &s.LLCsPerNUMA,
		"cores": &s.CoresPerLLC, "threads": &s.ThreadsPerCore}[name]
}

func (s Shape) withDefaults() Shape {
	for _, count := range []*int{&s.Packages, &s.NUMAPerPackage, &s.LLCsPerNUMA, &s.CoresPerLLC, &s.ThreadsPerCore} {
		if *count == 0 {
			*count = 1
		}
	}
	far := 21
	if s.NUMAPerPackage > 1 {
		far = 32
	}
	s.NearDistance, s.FarDistance = cmp.Or(s.NearDistance, 12), cmp.Or(s.FarDistance, far)
	return s
}

// Build builds the machine. It returns an error for negative counts and for more CPUs than a
// cpuset.Set can hold.
func (s Shape) Build() (*Machine, error) {
	s = s.withDefaults()
	total := 1
	for _, count := range []int{s.Packages, s.NUMAPerPackage, s.LLCsPerNUMA, s.CoresPerLLC, s.ThreadsPerCore} {
		if count < 0 || count > cpuset.MaxCPUs {
			return nil, fmt.Errorf("build machine: a count of %d is not between 1 and %d", count, cpuset.MaxCPUs)
		}
		if total *= count; total > cpuset.MaxCPUs {
			return nil, fmt.Errorf("build machine: more than %d CPUs", cpuset.MaxCPUs)
		}
	}
	m := &Machine{CPUs: make([]CPU, total), Kinds: []Kind{""}}
	cores := total / s.ThreadsPerCore
	for core := range cores {
		llc := core / s.CoresPerLLC
		numa := llc / s.LLCsPerNUMA
		pkg := numa / s.NUMAPerPackage
		for thread := range s.ThreadsPerCore {
			id := core + thread*cores
			if s.Numbering == SiblingsAdjacent {
				id = core*s.ThreadsPerCore + thread
			}
			m.CPUs[id] = CPU{ID: cpuset.CPU(id), Core: CoreID(core), LLC: LLCID(llc), NUMA: NUMAID(numa),
				Die: DieID(pkg), Package: PackageID(pkg)}
		}
	}
	m.NUMANodes = nodesOf(m.CPUs)
	for i := range m.NUMANodes {
		m.NUMANodes[i].MemoryBytes = s.MemoryBytesNUMA
		for j := range m.NUMANodes {
			m.NUMANodes[i].Distances[j] = s.distance(i, j)
		}
	}
	return m, nil
}

func (s Shape) distance(i, j int) int {
	switch {
	case i == j:
		return LocalDistance
	case i/s.NUMAPerPackage == j/s.NUMAPerPackage:
		return s.NearDistance
	default:
		return s.FarDistance
	}
}

// MustBuild is like Shape.Build but panics on an error. It is for shapes known to be valid.
func (s Shape) MustBuild() *Machine {
	m, err := s.Build()
	if err != nil {
		panic(err)
	}
	return m
}
