package sysfs

import (
	"fmt"
	"io/fs"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// Read reads the machine from a tree whose root is the /sys directory, such as os.DirFS("/sys").
// The result is valid ([topology.Machine.Validate]).
func Read(fsys fs.FS) (*topology.Machine, error) {
	m, err := readMachine(tree{fsys})
	if err != nil {
		return nil, fmt.Errorf("read CPU topology: %w", err)
	}
	return m, nil
}

// scan is a tree and its online CPUs. Slices "by CPU" below are parallel to cpus.
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
	s := scan{tree: t, online: online, cpus: slices.Collect(online.All())}
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

// parts are the parts of the machine, each with the files that define it.
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

// checkCores returns an error for a core whose threads are in different parts.
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

// claim is the statement of a file about one CPU: the online CPUs, including itself, with which it
// shares something.
type claim struct {
	cpus cpuset.Set
	file string
}

// grouping divides the online CPUs into groups.
type grouping struct {
	claims []claim // by CPU
	index  []int   // by CPU: the number of its group, dense, in the order of the lowest CPU
	first  []int   // by group: the position in scan.cpus of its lowest CPU
}

// group returns the groups according to one claim per CPU, or an error if two claims contradict
// each other. The error calls the groups what.
func (s scan) group(what string, claims []claim) (grouping, error) {
	position := map[cpuset.CPU]int{}
	for i, c := range s.cpus {
		position[c] = i
	}
	g := grouping{claims: claims, index: make([]int, len(claims))}
	for i, c := range s.cpus {
		own := claims[i]
		if !own.cpus.Contains(c) {
			return g, contradiction("%s says that the %s of CPU %d has the online CPUs %q, without CPU %d itself", own.file, what, c, own.cpus, c)
		}
		lowest := position[own.cpus.First()]
		if lowest < i {
			if claims[lowest].cpus != own.cpus {
				return g, s.disagreement(what, claims, lowest, i)
			}
			g.index[i] = g.index[lowest]
			continue
		}
		for other := range own.cpus.All() {
			if claims[position[other]].cpus != own.cpus {
				return g, s.disagreement(what, claims, i, position[other])
			}
		}
		g.index[i] = len(g.first)
		g.first = append(g.first, i)
	}
	return g, nil
}

func (s scan) disagreement(what string, claims []claim, i, j int) error {
	return contradiction("%s says that the %s of CPU %d has the online CPUs %q, but %s says that that of CPU %d has %q",
		claims[i].file, what, s.cpus[i], claims[i].cpus, claims[j].file, s.cpus[j], claims[j].cpus)
}

// claimsByKey returns claims in which all CPUs of the same key belong together.
func claimsByKey[Key comparable](cpus []cpuset.CPU, key func(i int) Key, file func(i int) string) []claim {
	members := map[Key]cpuset.Set{}
	for i, c := range cpus {
		set := members[key(i)]
		set.Add(c)
		members[key(i)] = set
	}
	claims := make([]claim, len(cpus))
	for i := range cpus {
		claims[i] = claim{members[key(i)], file(i)}
	}
	return claims
}
