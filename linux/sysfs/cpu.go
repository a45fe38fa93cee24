package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// onlineAndPresent reads the CPUs that are online, and those that are present (online or not).
// Without a usable list, the CPUs that have a directory are present, and those of them that are not
// offline by their own file are online.
func (t tree) onlineAndPresent(running cpuset.Set) (online, present cpuset.Set, err error) {
	const noList = "the CPUs that are present, and not offline by cpuN/online, count as online"
	online, err = read(t, cpuRoot+"/online", cpuset.Parse)
	if errors.Is(err, cpuset.ErrOutOfRange) {
		return online, present, fmt.Errorf("the machine has more CPUs than Pinfold supports: %w", err)
	}
	if err == nil && online.IsEmpty() {
		err = fmt.Errorf("%s/online: no CPU is online", cpuRoot)
	}
	dirs := setOf(t.numberedOr("the directories of CPUs are not looked for", cpuRoot, "cpu"))
	present, listed := readOr(t, "the CPUs that have a directory count as present", cpuRoot+"/present", cpuset.Parse)
	if present.IsEmpty() {
		present, listed = dirs, false
	}
	if err != nil {
		online = present
		if online.IsEmpty() && running.IsEmpty() {
			return online, present, fmt.Errorf("%w, and no CPU is present; is this the root of a /sys tree?", err)
		}
		t.notes.add(noList, err)
	}
	if up := t.notOffline(online); !up.IsEmpty() && up != online {
		if err == nil {
			t.mend("a CPU that is offline by one file counts as offline", "%s/online lists CPUs %s, but cpuN/online says that they are offline", cpuRoot, online.Difference(up))
		}
		online = up
	}
	if lacks := running.Difference(online); !lacks.IsEmpty() {
		t.mend("they count as online: processes run on them", "%s/online does not list CPUs %s", cpuRoot, lacks)
		online = online.Union(running)
	}
	if lacks := online.Difference(present); !lacks.IsEmpty() && listed {
		t.mend("CPUs that are online are present", "%s/present does not list CPUs %s", cpuRoot, lacks)
	}
	return online, present.Union(online), nil
}

// notOffline returns the CPUs that are not offline by /sys/devices/system/cpu/cpuN/online. CPUs
// that cannot be offline do not have this file.
func (t tree) notOffline(cpus cpuset.Set) (up cpuset.Set) {
	for c := range cpus.All() {
		if is, ok := readOr(t, "the CPU counts as online", cpuDir(c)+"/online", parseFlag); is || !ok {
			up.Add(c)
		}
	}
	return up
}

// Files in /sys/devices/system/cpu/cpuN/topology with ids.
const (
	coreIDFile    = "core_id"
	clusterIDFile = "cluster_id" // missing on older kernels
	packageIDFile = "physical_package_id"
	dieIDFile     = "die_id" // missing on older kernels
)

func topologyFile(c cpuset.CPU, name string) string { return cpuDir(c) + "/topology/" + name }

// cores groups the CPUs by core_cpus_list, on older kernels thread_siblings_list. CPUs about which
// nothing is known are cores of their own. If the kernel knows no core_id (-1), the lists have all
// CPUs that are alike in this (drivers/base/arch_topology.c), and mean nothing.
func (s scan) cores() grouping {
	lists := s.lists("core_cpus", "thread_siblings")
	if s.noCoreIDs() {
		clear(lists)
	}
	labels := s.divide("core", lists, s.coreIDs)
	return labelled(s, func(i int) int {
		if labels[i] != unknown {
			return labels[i]
		}
		s.mend("such a CPU counts as a core of its own", "%s/topology: the threads of the core of CPU %d are not known", cpuDir(s.cpus[i]), s.cpus[i])
		return i
	})
}

// noCoreIDs reports whether all CPUs have the core_id of an unknown core.
func (s scan) noCoreIDs() bool {
	for _, c := range s.cpus {
		if id, err := read(s.tree, topologyFile(c, coreIDFile), parseID); err != nil || id != unknown {
			return false
		}
	}
	return true
}

// coreIDs returns an id of the core of each CPU. core_id itself is unique only within the cluster,
// die or package, depending on the architecture, has gaps, and on some machines is per thread: so
// cores uses ids only where lists are missing or contradict each other.
func (s scan) coreIDs() []string {
	all := make([]string, len(s.cpus))
	cores, clusters, dies, packages := s.ids(coreIDFile), s.ids(clusterIDFile), s.ids(dieIDFile), s.ids(packageIDFile)
	for i, id := range cores {
		if id != unknown {
			all[i] = fmt.Sprint(packages[i], dies[i], clusters[i], id)
		}
	}
	return all
}

// packages are the packages with their numbers.
type packages struct {
	grouping
	id []topology.PackageID // by group
}

// packages groups the CPUs by package_cpus_list, on older kernels core_siblings_list, or else by
// physical_package_id. Lists that have no more than the threads of a core say nothing: a kernel
// that knows nothing about packages has such lists, and POWER. CPUs about which nothing is known
// belong to the first package.
func (s scan) packages(cores grouping) packages {
	ids := s.ids(packageIDFile)
	machine := labelled(s, func(int) int { return 0 })
	g := s.within("package", cores, machine, ids, s.lists("package_cpus", "core_siblings"))
	return packages{g, s.packageIDs(g, ids)}
}

// packageIDs returns the number of each package: the most frequent one among the ids of its CPUs,
// or an unused one if it has none, or one that another package has.
func (s scan) packageIDs(g grouping, ids []int) []topology.PackageID {
	numbers, taken := make([]topology.PackageID, len(g.sets)), map[int]bool{}
	var without []int
	for n, cpus := range g.sets {
		votes := map[int]int{}
		for c := range cpus.All() {
			if id := ids[s.at[c]]; id != unknown {
				votes[id]++
			}
		}
		ranked := slices.SortedFunc(maps.Keys(votes), func(a, b int) int {
			if votes[a] != votes[b] {
				return votes[b] - votes[a]
			}
			return a - b
		})
		if len(ranked) == 0 || taken[ranked[0]] {
			without = append(without, n)
			continue
		}
		taken[ranked[0]], numbers[n] = true, topology.PackageID(ranked[0])
	}
	free := 0
	for _, n := range without {
		for taken[free] {
			free++
		}
		taken[free], numbers[n] = true, topology.PackageID(free)
	}
	return numbers
}

// dies groups the CPUs by die_cpus_list or else die_id. Without ids each package is one die,
// because die_cpus_list contains only the CPU itself if the kernel does not know dies (seen on a
// Kunpeng 920).
func (s scan) dies(cores, packages grouping) grouping {
	ids := s.ids(dieIDFile)
	if !slices.ContainsFunc(ids, func(id int) bool { return id != unknown }) {
		return packages
	}
	return s.within("die", cores, packages, ids, s.lists("die_cpus"))
}

// within divides the groups above by lists, or else by ids. CPUs about which nothing is known
// belong to the first part of the group above.
func (s scan) within(what string, cores, above grouping, ids []int, lists []cpuset.Set) grouping {
	useful := false
	for i := range lists {
		group := above.sets[above.index[i]]
		if outside := lists[i].Difference(group); !outside.IsEmpty() {
			s.mend("only the part in the package counts", "CPUs %s and %s share a %s, but not a package", lists[i].Intersection(group), outside, what)
			lists[i] = lists[i].Intersection(group)
		}
		useful = useful || !lists[i].IsSubsetOf(cores.sets[cores.index[i]])
	}
	if !useful {
		clear(lists)
	}
	labels := s.wholeCores(what, cores, s.divide(what, lists, func() []string {
		keys := make([]string, len(ids))
		for i, id := range ids {
			if id != unknown {
				keys[i] = fmt.Sprint(above.index[i], id)
			}
		}
		return keys
	}))
	g := labelled(s, func(i int) [2]int {
		group := above.index[i]
		if labels[i] == unknown {
			for c := range above.sets[group].All() {
				if label := labels[s.at[c]]; label != unknown {
					s.mend("such a CPU belongs to the first "+what, "%s/topology: the %s of CPU %d is not known", cpuDir(s.cpus[i]), what, s.cpus[i])
					return [2]int{group, label}
				}
			}
		}
		return [2]int{group, labels[i]}
	})
	for i, id := range ids {
		if lowest := s.at[g.sets[g.index[i]].First()]; id != unknown && ids[lowest] != unknown && id != ids[lowest] {
			s.mend("the lists of CPUs count, not the ids",
				"CPUs %d and %d share a %s, but have the ids %d and %d", s.cpus[lowest], s.cpus[i], what, ids[lowest], id)
		}
	}
	return g
}

// ids reads an id of every CPU.
func (s scan) ids(name string) []int {
	ids := make([]int, len(s.cpus))
	for i, c := range s.cpus {
		id, ok := readOr(s.tree, "such ids are ignored", topologyFile(c, name), parseID)
		if ids[i] = id; !ok {
			ids[i] = unknown
		}
	}
	return ids
}

// lists reads a list of CPUs of every CPU, from the first of the files that exists. The list is
// empty if it is unknown.
func (s scan) lists(names ...string) []cpuset.Set {
	lists := make([]cpuset.Set, len(s.cpus))
	var missing []error
	for i, c := range s.cpus {
		var files []string
		for _, name := range names {
			files = append(files, topologyFile(c, name)+"_list", topologyFile(c, name))
		}
		var err error
		if lists[i], err = s.list(c, files...); err != nil {
			missing = append(missing, err)
		}
	}
	if len(missing) < len(s.cpus) { // else this kernel has no such files
		for _, err := range missing {
			s.notes.add(listIgnored, err)
		}
	}
	return lists
}

const listIgnored = "such lists are ignored"

// list reads the CPUs with which a CPU shares something from the first of the files that exists.
// The result is empty if that is unknown, with an error if none exists.
func (s scan) list(c cpuset.CPU, files ...string) (cpuset.Set, error) {
	cpus, file, err := s.readFirst(files...)
	if errors.Is(err, fs.ErrNotExist) {
		return cpuset.Set{}, err
	}
	if err == nil && !cpus.Contains(c) {
		err = fmt.Errorf("%s lists CPUs %q, but not CPU %d itself", file, cpus, c)
	}
	if err != nil {
		s.notes.add(listIgnored, err)
		return cpuset.Set{}, nil
	}
	return cpus.Intersection(s.online), nil
}
