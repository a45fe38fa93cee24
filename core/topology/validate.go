package topology

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
)

// ErrInconsistent is wrapped by every error of Machine.Validate.
var ErrInconsistent = errors.New("the machine's topology contradicts itself")

// Validate returns the first contradiction in the machine; the package comment lists the rules. If
// there is none, every method and every decision of package placement is defined on the machine.
func (m *Machine) Validate() error {
	for _, check := range []func() error{
		m.validateCPUs, m.validateCores, m.validateNUMANodes, m.validateKinds, m.validateSets, m.validateLLCBytes,
	} {
		if err := check(); err != nil {
			return fmt.Errorf("%w: %w", ErrInconsistent, err)
		}
	}
	return nil
}

func (m *Machine) validateCPUs() error {
	if len(m.CPUs) == 0 {
		return errors.New("no CPU is online")
	}
	last := cpuset.CPU(-1)
	for _, c := range m.CPUs {
		switch {
		case !c.ID.Valid():
			return fmt.Errorf("CPU %d: ids must be 0 to %d", c.ID, cpuset.MaxCPUs-1)
		case c.ID == last:
			return fmt.Errorf("CPU %d is listed twice", c.ID)
		case c.ID < last:
			return fmt.Errorf("CPU %d is listed after CPU %d: the order must be ascending", c.ID, last)
		case c.Core < 0 || c.LLC < 0 || c.Die < 0 || c.Package < 0:
			return fmt.Errorf("CPU %d: core, llc, die and package must not be negative", c.ID)
		case c.NUMA < NoNUMA:
			return fmt.Errorf("CPU %d: NUMA node %d must be 0 or more, or %d for none", c.ID, c.NUMA, NoNUMA)
		}
		last = c.ID
	}
	return nil
}

func (m *Machine) validateLLCBytes() error {
	used := map[LLCID]bool{}
	for i := range m.CPUs {
		used[m.CPUs[i].LLC] = true
	}
	for _, id := range slices.Sorted(maps.Keys(m.LLCBytes)) {
		if m.LLCBytes[id] == 0 {
			return fmt.Errorf("LLC %d has a size of 0: leave it out if it is unknown", id)
		}
		if !used[id] {
			return fmt.Errorf("LLC %d has a size, but no CPU", id)
		}
	}
	return nil
}

func (m *Machine) validateCores() error {
	first := map[CoreID]CPU{}
	for _, c := range m.CPUs {
		f, ok := first[c.Core]
		if !ok {
			first[c.Core] = c
			continue
		}
		same := c
		same.ID = f.ID
		if same != f {
			return fmt.Errorf("CPUs %d and %d are threads of core %d but differ in LLC (%d, %d), NUMA node (%d, %d), "+
				"die (%d, %d), package (%d, %d) or kind (%q, %q)", f.ID, c.ID, c.Core, f.LLC, c.LLC, f.NUMA, c.NUMA,
				f.Die, c.Die, f.Package, c.Package, f.Kind, c.Kind)
		}
	}
	return nil
}

func (m *Machine) validateNUMANodes() error {
	want := map[NUMAID]cpuset.Set{}
	for _, c := range m.CPUs {
		s := want[c.NUMA]
		s.Add(c.ID)
		want[c.NUMA] = s
	}
	if len(want) > MaxNUMANodes {
		return fmt.Errorf("CPUs are in %d NUMA nodes, more than the %d that are supported", len(want), MaxNUMANodes)
	}
	delete(want, NoNUMA)
	online, last := m.Online(), NoNUMA
	for _, n := range m.NUMANodes {
		switch {
		case n.ID <= last:
			return fmt.Errorf("NUMA node %d is listed after node %d: the order must be ascending, without repeats", n.ID, last)
		case n.CPUs != want[n.ID]:
			return fmt.Errorf("NUMA node %d lists CPUs %q, but the CPUs that name it are %q", n.ID, n.CPUs, want[n.ID])
		case !n.CPUs.IsEmpty() && n.LocalCPUs != n.CPUs:
			return fmt.Errorf("NUMA node %d has CPUs %q but is said to be local to %q: it must be local to its own CPUs", n.ID, n.CPUs, n.LocalCPUs)
		case !n.LocalCPUs.IsSubsetOf(online):
			return fmt.Errorf("NUMA node %d is said to be local to CPUs %q, which are not online", n.ID, n.LocalCPUs.Difference(online))
		case len(n.Distances) != len(m.NUMANodes):
			return fmt.Errorf("NUMA node %d has %d distances, want one for each of the %d nodes", n.ID, len(n.Distances), len(m.NUMANodes))
		case slices.ContainsFunc(n.Distances, func(d int) bool { return d < 0 || d > maxDistance }):
			return fmt.Errorf("NUMA node %d: distances %v must be 0 to %d", n.ID, n.Distances, maxDistance)
		}
		delete(want, n.ID)
		last = n.ID
	}
	for id, cpus := range want {
		return fmt.Errorf("CPUs %q name NUMA node %d, which is not listed", cpus, id)
	}
	return nil
}

// MaxNUMANodes is the largest number of NUMA nodes with CPUs; CPUs without a node count as one more.
// It bounds the work of a placement. No machine of [cpuset.MaxCPUs] CPUs has more, except with
// numa=fake= on the kernel command line.
const MaxNUMANodes = 64

// maxDistance keeps sums of distances small; the maximum of the SLIT is 255.
const maxDistance = 1 << 16

func (m *Machine) validateKinds() error {
	used := map[Kind]bool{}
	for i := range m.CPUs {
		used[m.CPUs[i].Kind] = true
	}
	for _, k := range m.Kinds {
		if !used[k] {
			return fmt.Errorf("kind %q is listed without a CPU or twice", k)
		}
		delete(used, k)
	}
	for _, c := range m.CPUs {
		if used[c.Kind] {
			return fmt.Errorf("CPU %d is of kind %q, which is not among the machine's kinds %q", c.ID, c.Kind, m.Kinds)
		}
	}
	return nil
}

func (m *Machine) validateSets() error {
	online := m.Online()
	if both := online.Intersection(m.Offline); !both.IsEmpty() {
		return fmt.Errorf("CPUs %q are both online and offline", both)
	}
	if extra := m.Isolated.Difference(online); !extra.IsEmpty() {
		return fmt.Errorf("isolated CPUs %q are not online", extra)
	}
	if extra := m.NoHZFull.Difference(online); !extra.IsEmpty() {
		return fmt.Errorf("nohz_full CPUs %q are not online", extra)
	}
	return nil
}
