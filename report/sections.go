package report

import (
	"cmp"
	"fmt"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// section is one part of a box: the CPUs of one package, NUMA node and die.
type section struct {
	pkg   topology.PackageID
	numa  topology.NUMAID
	die   topology.DieID
	cpus  cpuset.Set
	notes []string // heading, without the package
	cells []cell
}

// cell is one last-level cache of a section, or a part of it that needs row
// labels of its own.
type cell struct {
	title string
	segment
}

// sectionsOf divides the machine, packages together, nodes and dies in order of
// their numbers, CPUs without a NUMA node last.
func sectionsOf(m *topology.Machine) []section {
	var out []section
	for _, c := range m.CPUs {
		i := slices.IndexFunc(out, func(s section) bool {
			return s.pkg == c.Package && s.numa == c.NUMA && s.die == c.Die
		})
		if i < 0 {
			i = len(out)
			out = append(out, section{pkg: c.Package, numa: c.NUMA, die: c.Die})
		}
		out[i].cpus.Add(c.ID)
	}
	slices.SortFunc(out, func(a, b section) int {
		return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(uint(a.numa), uint(b.numa)), cmp.Compare(a.die, b.die))
	})
	diesOf := map[topology.PackageID]int{}
	for _, die := range m.Dies() {
		c, _ := m.CPU(die.CPUs.First())
		diesOf[c.Package]++
	}
	llcs := m.LLCs()
	for i := range out {
		out[i].describe(m, diesOf[out[i].pkg] > 1)
		out[i].cells = cellsOf(m, llcs, out[i].cpus)
	}
	return out
}

func (s *section) describe(m *topology.Machine, showDie bool) {
	node, ok := m.NUMANode(s.numa)
	if !ok {
		s.notes = append(s.notes, "no NUMA node")
	} else {
		name := fmt.Sprintf("NUMA node %d", s.numa)
		if node.CPUs != s.cpus {
			name += " (part)"
		}
		s.notes = append(s.notes, name)
	}
	if showDie {
		s.notes = append(s.notes, fmt.Sprintf("die %d", s.die))
	}
	if ok && node.MemoryBytes > 0 {
		s.notes = append(s.notes, bytesText(node.MemoryBytes))
	}
}

// cellsOf draws the caches of some CPUs, by id.
func cellsOf(m *topology.Machine, llcs []topology.Group[topology.LLCID], cpus cpuset.Set) []cell {
	var out []cell
	for _, llc := range llcs {
		here := llc.CPUs.Intersection(cpus)
		if here.IsEmpty() {
			continue
		}
		title := fmt.Sprintf("LLC %d", llc.ID)
		if here != llc.CPUs {
			title += " (part)"
		}
		for _, s := range segments(coresOf(m, here), m.Offline) {
			full := title
			if len(m.Kinds) > 1 && s.kind != "" {
				full += " " + string(s.kind)
			}
			out = append(out, cell{full, s})
		}
	}
	return out
}

// bytesText writes a size of memory in its largest unit, rounded to three digits.
func bytesText(n uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	size, unit := float64(n), 0
	for size >= 999.5 && unit < len(units)-1 {
		size /= 1024
		unit++
	}
	return fmt.Sprintf("%.3g %s", size, units[unit])
}
