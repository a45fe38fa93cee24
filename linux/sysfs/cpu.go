package sysfs

import (
	"errors"
	"fmt"
	"io/fs"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// cpuSets reads the CPUs that are online, present (online or not) and isolated.
func (t tree) cpuSets() (online, present, isolated cpuset.Set, err error) {
	dirs, err := t.numberedSet(cpuRoot, "cpu")
	if err != nil {
		return online, present, isolated, err
	}
	online, fromFile, err := readIfThere(t, cpuRoot+"/online", cpuset.Parse)
	if err == nil && !fromFile {
		online, err = t.onlineAmong(dirs)
	}
	if err != nil {
		return online, present, isolated, err
	}
	if online.IsEmpty() {
		return online, present, isolated, fmt.Errorf("%s/online: no CPU is online; is this the root of a /sys tree?", cpuRoot)
	}
	present, ok, err := readIfThere(t, cpuRoot+"/present", cpuset.Parse)
	switch {
	case err != nil:
		return online, present, isolated, err
	case !ok:
		present = dirs
	case !online.IsSubsetOf(present):
		return online, present, isolated, contradiction("%s/online lists CPUs %q, which %s/present does not", cpuRoot,
			online.Difference(present), cpuRoot)
	}
	if fromFile {
		confirmed, err := t.onlineAmong(online)
		if err != nil {
			return online, present, isolated, err
		}
		if offline := online.Difference(confirmed); !offline.IsEmpty() {
			return online, present, isolated, contradiction("%s/online lists CPU %d, but %s/online says that it is offline",
				cpuRoot, offline.First(), cpuDir(offline.First()))
		}
	}
	// This file may list CPUs that do not exist.
	isolated, _, err = readIfThere(t, cpuRoot+"/isolated", cpuset.Parse)
	return online, present, isolated, err
}

// onlineAmong returns the CPUs that are not offline by /sys/devices/system/cpu/cpuN/online. CPUs
// that cannot be offline do not have this file.
func (t tree) onlineAmong(cpus cpuset.Set) (cpuset.Set, error) {
	var online cpuset.Set
	for c := range cpus.All() {
		is, ok, err := readIfThere(t, cpuDir(c)+"/online", parseFlag)
		if err != nil {
			return online, err
		}
		if is || !ok {
			online.Add(c)
		}
	}
	return online, nil
}

// unknownID is the kernel's id of an unknown package or die.
const unknownID = -1

// Files in /sys/devices/system/cpu/cpuN/topology with ids.
const (
	packageIDFile = "physical_package_id"
	dieIDFile     = "die_id" // missing on older kernels
)

func topologyFile(c cpuset.CPU, name string) string { return cpuDir(c) + "/topology/" + name }

// cores groups the CPUs by core_cpus_list, on older kernels thread_siblings_list.
func (s scan) cores() (grouping, error) {
	claims, _, err := s.cpuLists("core_cpus", "thread_siblings")
	if err != nil {
		return grouping{}, err
	}
	return s.group("core", claims)
}

// packages are the packages with the kernel's numbers.
type packages struct {
	grouping
	id []topology.PackageID // by CPU
}

// packages groups the CPUs by package_cpus_list (on older kernels core_siblings_list) and
// physical_package_id. Without ids there is one package, with number 0.
func (s scan) packages() (packages, error) {
	ids, known, err := s.ids(packageIDFile)
	if err != nil {
		return packages{}, err
	}
	claims := claimsByKey(s.cpus, func(i int) int { return ids[i] }, func(i int) string { return topologyFile(s.cpus[i], packageIDFile) })
	if known {
		if claims, err = s.listsOr(claims, "package_cpus", "core_siblings"); err != nil {
			return packages{}, err
		}
	}
	p := packages{id: make([]topology.PackageID, len(ids))}
	if p.grouping, err = s.group("package", claims); err != nil || !known {
		return p, err
	}
	for i := range ids {
		p.id[i] = topology.PackageID(ids[i])
	}
	return p, s.checkIDs(p.grouping, ids, packageIDFile)
}

// dies groups the CPUs by die_cpus_list and die_id. Without ids each package is one die, because
// die_cpus_list contains only the CPU itself if the kernel does not know dies (seen on a Kunpeng
// 920).
func (s scan) dies(p packages) (grouping, error) {
	ids, known, err := s.ids(dieIDFile)
	if err != nil || !known {
		return p.grouping, err
	}
	byID := claimsByKey(s.cpus, func(i int) [2]int { return [2]int{p.index[i], ids[i]} },
		func(i int) string { return topologyFile(s.cpus[i], dieIDFile) })
	claims, err := s.listsOr(byID, "die_cpus")
	if err != nil {
		return grouping{}, err
	}
	for i, c := range claims {
		if !c.cpus.IsSubsetOf(p.claims[i].cpus) {
			return grouping{}, contradiction("%s says that the die of CPU %d has the online CPUs %q, but %s has only %q in the package",
				c.file, s.cpus[i], c.cpus, p.claims[i].file, p.claims[i].cpus)
		}
		if c.cpus != byID[i].cpus {
			return grouping{}, contradiction("%s says that the die of CPU %d has the online CPUs %q, but in its package %s and the like give the same die_id to %q",
				c.file, s.cpus[i], c.cpus, byID[i].file, byID[i].cpus)
		}
	}
	return s.group("die", claims)
}

// ids reads an id of every CPU. known is false if no CPU has one. It is a contradiction if only
// some CPUs have one.
func (s scan) ids(name string) (ids []int, known bool, err error) {
	ids = make([]int, len(s.cpus))
	for i, c := range s.cpus {
		ids[i], err = read(s.tree, topologyFile(c, name), parseID)
		if name == dieIDFile && errors.Is(err, fs.ErrNotExist) {
			ids[i], err = unknownID, nil
		}
		if err != nil {
			return nil, false, err
		}
		if (ids[i] == unknownID) != (ids[0] == unknownID) {
			return nil, false, contradiction("of %s and %s one has an id and the other has none",
				topologyFile(s.cpus[0], name), topologyFile(c, name))
		}
	}
	return ids, ids[0] != unknownID, nil
}

// cpuLists reads a CPU list of every CPU, from the first of the files that exists. missing is true
// if the first CPU has none, which makes the others unnecessary.
func (s scan) cpuLists(names ...string) (claims []claim, missing bool, err error) {
	claims = make([]claim, len(s.cpus))
	for i, c := range s.cpus {
		var files []string
		for _, name := range names {
			files = append(files, topologyFile(c, name)+"_list", topologyFile(c, name))
		}
		cpus, file, err := s.readFirst(files...)
		if err != nil {
			return nil, i == 0 && errors.Is(err, fs.ErrNotExist), err
		}
		claims[i] = claim{cpus.Intersection(s.online), file}
	}
	return claims, false, nil
}

// listsOr returns the claims of CPU lists, or the given claims if the tree has no such lists.
func (s scan) listsOr(claims []claim, names ...string) ([]claim, error) {
	listed, missing, err := s.cpuLists(names...)
	if missing {
		return claims, nil
	}
	return listed, err
}

// checkIDs returns an error if CPUs of one group have different ids, or two groups the same id.
func (s scan) checkIDs(g grouping, ids []int, name string) error {
	file := func(i int) string { return topologyFile(s.cpus[i], name) }
	firstWith := map[int]int{}
	for i, id := range ids {
		if j := g.first[g.index[i]]; ids[j] != id {
			return contradiction("CPUs %d and %d are together by %s, but %s says %d and %s says %d", s.cpus[j], s.cpus[i],
				g.claims[i].file, file(j), ids[j], file(i), id)
		}
		j, ok := firstWith[id]
		if !ok {
			firstWith[id] = i
		} else if g.index[j] != g.index[i] {
			return contradiction("%s and %s both say %d, but CPUs %d and %d are apart by %s", file(j), file(i), id,
				s.cpus[j], s.cpus[i], g.claims[i].file)
		}
	}
	return nil
}
