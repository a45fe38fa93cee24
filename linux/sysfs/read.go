package sysfs

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// Read is Examine for callers that do not show notes.
func Read(fsys fs.FS) (*topology.Machine, error) {
	m, _, err := Examine(fsys, cpuset.Set{})
	return m, err
}

// Examine reads the machine from a tree whose root is the /sys directory, such as os.DirFS("/sys").
// The result is valid ([topology.Machine.Validate]). The CPUs in running are online whatever the
// tree says: those on which the kernel runs processes.
//
// Notes say which files are damaged, missing or contradictory, and what is assumed instead: one
// sentence for each kind of fault. CPU hotplug during the call looks like damage: if there are
// notes, read again.
func Examine(fsys fs.FS, running cpuset.Set) (m *topology.Machine, notes []string, err error) {
	t := newTree(fsys)
	m, err = readMachine(t, running)
	if err != nil {
		return nil, nil, fmt.Errorf("read CPU topology: %w", err)
	}
	return m, t.notes.texts(), nil
}

func newTree(fsys fs.FS) tree { return tree{fsys, &notes{}} }

// scan is a tree and its online CPUs. Slices "by CPU" below are parallel to cpus.
type scan struct {
	tree
	online cpuset.Set
	cpus   []cpuset.CPU // online, ascending
	at     []int        // the position in cpus, by id
}

func newScan(t tree, online cpuset.Set) scan {
	s := scan{tree: t, online: online, cpus: slices.Collect(online.All()), at: make([]int, cpuset.MaxCPUs)}
	for i, c := range s.cpus {
		s.at[c] = i
	}
	return s
}

// parseNoHZ parses a CPU list. Kernels that can have such CPUs, and have none, print "(null)" or nothing.
func parseNoHZ(text string) (cpuset.Set, error) {
	return cpuset.Parse(strings.TrimPrefix(text, "(null)"))
}

// readMachine reads the levels in the order in which they depend on each other. Where two levels
// contradict each other, the first one is right.
func readMachine(t tree, running cpuset.Set) (*topology.Machine, error) {
	online, present, err := t.onlineAndPresent(running)
	if err != nil {
		return nil, err
	}
	s := newScan(t, online)
	cores := s.cores()
	packages := s.packages(cores)
	dies := s.dies(cores, packages.grouping)
	nodes, nodeOf := s.numa(cores)
	levels := s.cacheLevels()
	llcs, sizes := s.llcs(cores, levels, func(i int) place { return place{packages.index[i], dies.index[i], nodeOf[i]} })
	// This file may list CPUs that do not exist.
	isolated, _ := readOr(t, "no CPU counts as isolated", cpuRoot+"/isolated", cpuset.Parse)
	nohz, _ := readOr(t, "no CPU counts as one of nohz_full", cpuRoot+"/nohz_full", parseNoHZ)
	m := &topology.Machine{NUMANodes: nodes, Offline: present.Difference(online), Isolated: isolated.Intersection(online),
		NoHZFull: nohz.Intersection(online), LLCBytes: sizes}
	for i, c := range s.cpus {
		m.CPUs = append(m.CPUs, topology.CPU{
			ID: c, Core: topology.CoreID(cores.index[i]), LLC: topology.LLCID(llcs.index[i]),
			NUMA: nodeOf[i], Die: topology.DieID(dies.index[i]), Package: packages.id[packages.index[i]],
		})
	}
	s.setKinds(m, cores, levels[2])
	return m, m.Validate()
}
