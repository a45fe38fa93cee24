package sysfs

import (
	"errors"
	"io/fs"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// unknownID is the kernel's id of a package or die that it knows nothing about.
const unknownID = -1

func (s scan) cores() (grouping, error) {
	claims := make([]claim, len(s.cpus))
	for i, c := range s.cpus {
		var err error
		if claims[i], err = s.coreCPUs(c); err != nil {
			return grouping{}, err
		}
	}
	return s.group("core", claims)
}

// coreCPUs reads /sys/devices/system/cpu/cpuN/topology/core_cpus_list,
// in older kernels thread_siblings_list.
func (s scan) coreCPUs(c cpuset.CPU) (claim, error) {
	return s.topologyCPUs(c, "core_cpus", "thread_siblings")
}

// packageCPUs reads /sys/devices/system/cpu/cpuN/topology/package_cpus_list,
// in older kernels core_siblings_list.
func (s scan) packageCPUs(c cpuset.CPU) (claim, error) {
	return s.topologyCPUs(c, "package_cpus", "core_siblings")
}

// dieCPUs reads /sys/devices/system/cpu/cpuN/topology/die_cpus_list.
func (s scan) dieCPUs(c cpuset.CPU) (claim, error) { return s.topologyCPUs(c, "die_cpus") }

func (s scan) topologyCPUs(c cpuset.CPU, names ...string) (claim, error) {
	var files []string
	for _, name := range names {
		path := cpuDir(c) + "/topology/" + name
		files = append(files, path+"_list", path)
	}
	cpus, file, err := s.readFirst(files...)
	return claim{cpus.Intersection(s.online), file}, err
}

// physicalPackageID reads
// /sys/devices/system/cpu/cpuN/topology/physical_package_id.
func (s scan) physicalPackageID(c cpuset.CPU) (int, error) {
	return read(s.tree, physicalPackageIDFile(c), parseID)
}

func physicalPackageIDFile(c cpuset.CPU) string { return cpuDir(c) + "/topology/physical_package_id" }

// dieID reads /sys/devices/system/cpu/cpuN/topology/die_id, which older
// kernels do not have.
func (s scan) dieID(c cpuset.CPU) (int, error) {
	id, ok, err := readIfThere(s.tree, dieIDFile(c), parseID)
	if !ok {
		id = unknownID
	}
	return id, err
}

func dieIDFile(c cpuset.CPU) string { return cpuDir(c) + "/topology/die_id" }

// ids reads an id of every CPU. Either all CPUs have one or none, else it is a
// contradiction; known says which.
func (s scan) ids(id func(cpuset.CPU) (int, error), file func(cpuset.CPU) string) (ids []int, known bool, err error) {
	ids = make([]int, len(s.cpus))
	for i, c := range s.cpus {
		if ids[i], err = id(c); err != nil {
			return nil, false, err
		}
		if (ids[i] == unknownID) != (ids[0] == unknownID) {
			return nil, false, contradiction("of %s and %s one has an id and the other has none", file(s.cpus[0]), file(c))
		}
	}
	return ids, ids[0] != unknownID, nil
}

// packages are the packages with the kernel's numbers.
type packages struct {
	grouping
	id []topology.PackageID // by CPU
}

// packages finds the packages. Without ids there is one, numbered 0.
func (s scan) packages() (packages, error) {
	ids, known, err := s.ids(s.physicalPackageID, physicalPackageIDFile)
	if err != nil {
		return packages{}, err
	}
	claims := s.claimsByID(ids, physicalPackageIDFile)
	if known {
		if claims, err = s.listedOr(claims, s.packageCPUs); err != nil {
			return packages{}, err
		}
	}
	p := packages{id: make([]topology.PackageID, len(ids))}
	if p.grouping, err = s.group("package", claims); err != nil {
		return p, err
	}
	if !known {
		return p, nil
	}
	for i := range ids {
		p.id[i] = topology.PackageID(ids[i])
	}
	return p, s.checkIDs(p.grouping, ids, physicalPackageIDFile)
}

// dies finds the dies. Without ids each package is one: where the kernel does
// not know dies, die_cpus_list holds the CPU alone (seen on a Kunpeng 920).
func (s scan) dies(p packages) (grouping, error) {
	ids, known, err := s.ids(s.dieID, dieIDFile)
	if err != nil || !known {
		return p.grouping, err
	}
	byID := claimsByKey(s.cpus, func(i int) [2]int { return [2]int{p.index[i], ids[i]} },
		func(i int) string { return dieIDFile(s.cpus[i]) })
	claims, err := s.listedOr(byID, s.dieCPUs)
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

func (s scan) claimsByID(ids []int, file func(cpuset.CPU) string) []claim {
	return claimsByKey(s.cpus, func(i int) int { return ids[i] }, func(i int) string { return file(s.cpus[i]) })
}

// listedOr replaces the claims by what the CPUs' own lists say, unless CPU lists
// of this sort do not exist at all in the tree.
func (s scan) listedOr(claims []claim, list func(cpuset.CPU) (claim, error)) ([]claim, error) {
	listed := make([]claim, len(s.cpus))
	for i, c := range s.cpus {
		var err error
		listed[i], err = list(c)
		if i == 0 && errors.Is(err, fs.ErrNotExist) {
			return claims, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return listed, nil
}

// checkIDs reports a group whose CPUs have different ids, and an id in two groups.
func (s scan) checkIDs(g grouping, ids []int, file func(cpuset.CPU) string) error {
	firstWith := map[int]int{}
	for i, id := range ids {
		if j := g.first[g.index[i]]; ids[j] != id {
			return contradiction("CPUs %d and %d are together by %s, but %s says %d and %s says %d", s.cpus[j], s.cpus[i],
				g.claims[i].file, file(s.cpus[j]), ids[j], file(s.cpus[i]), id)
		}
		j, ok := firstWith[id]
		if !ok {
			firstWith[id] = i
		} else if g.index[j] != g.index[i] {
			return contradiction("%s and %s both say %d, but CPUs %d and %d are apart by %s", file(s.cpus[j]), file(s.cpus[i]), id,
				s.cpus[j], s.cpus[i], g.claims[i].file)
		}
	}
	return nil
}
