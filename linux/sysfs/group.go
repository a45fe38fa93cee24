package sysfs

import (
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
)

// grouping divides the online CPUs into groups. Groups are numbered from 0, in the order of their
// lowest CPU.
type grouping struct {
	index []int        // by CPU: the number of its group
	sets  []cpuset.Set // by group: its CPUs
}

// labelled groups the CPUs that have the same label.
func labelled[Label comparable](s scan, label func(i int) Label) grouping {
	g := grouping{index: make([]int, len(s.cpus))}
	number := map[Label]int{}
	for i, c := range s.cpus {
		l := label(i)
		n, ok := number[l]
		if !ok {
			n = len(g.sets)
			number[l] = n
			g.sets = append(g.sets, cpuset.Set{})
		}
		g.index[i] = n
		g.sets[n].Add(c)
	}
	return g
}

// unknown is the id of CPUs about which no file says anything, and the kernel's id of a package or
// die that it does not know.
const unknown = -1

// divide divides the CPUs by what the list of each one says. It returns a label for every CPU.
//
// Two CPUs belong together if each one's list has the other. If only one's has, the ids decide, and
// without ids (nil) they are apart. A CPU whose list is unknown (the empty set) belongs to the
// first CPU whose list has it. Without one it belongs to the CPUs with the same id, and without an
// id its label is unknown. what names the groups.
func (s scan) divide(what string, lists []cpuset.Set, ids func() []string) []int {
	d := division{parent: make([]int, len(s.cpus)), placed: make([]bool, len(s.cpus))}
	for i := range d.parent {
		d.parent[i] = i
		d.placed[i] = !lists[i].IsEmpty()
	}
	var known []string
	id := func(i int) string {
		if ids == nil {
			return ""
		}
		if known == nil {
			known = ids()
		}
		return known[i]
	}
	for i, c := range s.cpus {
		for other := range lists[i].All() {
			j := s.at[other]
			switch {
			case lists[j].Contains(c):
				d.join(i, j)
			case !d.placed[j]:
				d.join(i, j)
				d.placed[j] = true
			case !lists[j].IsEmpty():
				s.mend("CPUs share a "+what+" if both lists say so, or the ids are the same",
					"the list of the CPUs that share a %s with CPU %d has CPU %d, but not the other way round", what, c, other)
				if id(i) != "" && id(i) == id(j) {
					d.join(i, j)
				}
			}
		}
	}
	d.byID(id)
	labels := make([]int, len(s.cpus))
	for i := range labels {
		labels[i] = unknown
		if d.placed[i] {
			labels[i] = d.root(i)
		}
	}
	return labels
}

// division is a union-find structure over the CPUs.
type division struct {
	parent []int
	placed []bool // a list has the CPU, or its id is known
}

func (d division) root(i int) int {
	for d.parent[i] != i {
		i = d.parent[i]
	}
	return i
}

// join joins the groups of two CPUs. The label of a group is its lowest CPU.
func (d division) join(i, j int) {
	a, b := d.root(i), d.root(j)
	d.parent[max(a, b)] = min(a, b)
}

// byID places the CPUs that are in no list.
func (d division) byID(id func(i int) string) {
	if !slices.Contains(d.placed, false) {
		return
	}
	first := map[string]int{}
	for i := range d.placed {
		if _, ok := first[id(i)]; !ok {
			first[id(i)] = i
		}
	}
	for i := range d.placed {
		if !d.placed[i] && id(i) != "" {
			d.join(first[id(i)], i)
			d.placed[i] = true
		}
	}
}

// wholeCores gives all threads of a core the label of the first one that has a known label.
func (s scan) wholeCores(what string, cores grouping, labels []int) []int {
	ofCore := make([]int, len(cores.sets))
	for n := range ofCore {
		ofCore[n] = unknown
	}
	whole := make([]int, len(labels))
	for i, n := range cores.index {
		if ofCore[n] == unknown {
			ofCore[n] = labels[i]
		}
	}
	for i, n := range cores.index {
		whole[i] = ofCore[n]
		if labels[i] != unknown && labels[i] != whole[i] {
			s.mend("a core belongs to the "+what+" of its first thread",
				"CPUs %s are threads of one core, but CPU %d is in another %s", cores.sets[n], s.cpus[i], what)
		}
	}
	return whole
}
