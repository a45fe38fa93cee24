package sysfs

import (
	"fmt"
	"io/fs"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// Read reads the machine from a tree whose root is the /sys directory, such as
// os.DirFS("/sys"). The result is valid ([topology.Machine.Validate]).
func Read(fsys fs.FS) (*topology.Machine, error) {
	m, err := readMachine(tree{fsys})
	if err != nil {
		return nil, fmt.Errorf("read CPU topology: %w", err)
	}
	return m, nil
}

// scan is a tree and the CPUs that are online in it. Slices "by CPU" below are
// parallel to cpus.
type scan struct {
	tree
	online cpuset.Set
	cpus   []cpuset.CPU // online, ascending
}

func readMachine(t tree) (*topology.Machine, error) {
	online, present, isolated, err := t.cpuSets()
	if err != nil {
		return nil, err
	}
	s := scan{tree: t, online: online}
	for c := range online.All() {
		s.cpus = append(s.cpus, c)
	}
	p, err := s.parts()
	if err != nil {
		return nil, err
	}
	if err := s.checkCores(p); err != nil {
		return nil, err
	}
	m := &topology.Machine{Offline: present.Difference(online), Isolated: isolated.Intersection(online)}
	for i, c := range s.cpus {
		m.CPUs = append(m.CPUs, topology.CPU{
			ID: c, Core: topology.CoreID(p.cores.index[i]), LLC: topology.LLCID(p.llcs.index[i]),
			NUMA: p.numa.of[i], Die: topology.DieID(p.dies.index[i]), Package: p.packages.id[i],
		})
	}
	m.NUMANodes = p.numa.nodes
	if err := s.setKinds(m, p.cores); err != nil {
		return nil, err
	}
	return m, m.Validate()
}

// parts are the parts of the machine, each with the files that they are known from.
type parts struct {
	cores, dies, llcs grouping
	packages          packages
	numa              numa
}

func (s scan) parts() (p parts, err error) {
	if p.cores, err = s.cores(); err != nil {
		return p, err
	}
	if p.packages, err = s.packages(); err != nil {
		return p, err
	}
	if p.dies, err = s.dies(p.packages); err != nil {
		return p, err
	}
	if p.numa, err = s.numa(); err != nil {
		return p, err
	}
	p.llcs, err = s.llcs(p)
	return p, err
}

// checkCores reports a core whose threads are in different parts.
func (s scan) checkCores(p parts) error {
	for i := range s.cpus {
		j := p.cores.first[p.cores.index[i]]
		for _, part := range []struct {
			name  string
			same  bool
			files [2]string
		}{
			{"packages", p.packages.index[i] == p.packages.index[j], [2]string{p.packages.claims[i].file, p.packages.claims[j].file}},
			{"dies", p.dies.index[i] == p.dies.index[j], [2]string{p.dies.claims[i].file, p.dies.claims[j].file}},
			{"NUMA nodes", p.numa.of[i] == p.numa.of[j], [2]string{p.numa.file[i], p.numa.file[j]}},
			{"last-level caches", p.llcs.index[i] == p.llcs.index[j], [2]string{p.llcs.claims[i].file, p.llcs.claims[j].file}},
		} {
			if !part.same {
				return contradiction("CPUs %d and %d are one core by %s, but in different %s by %s and %s",
					s.cpus[j], s.cpus[i], p.cores.claims[i].file, part.name, part.files[1], part.files[0])
			}
		}
	}
	return nil
}
