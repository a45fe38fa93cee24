package report

import (
	"cmp"
	"fmt"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// section is a part of a box: the CPUs of one package, NUMA node and die.
type section struct {
	pkg   topology.PackageID
	numa  topology.NUMAID
	die   topology.DieID
	cpus  cpuset.Set
	notes []string // heading, without the package
	cells []cell
}

// cell is a last-level cache of a section, or one segment of it.
type cell struct {
	title string
	segment
}

// sectionsOf divides the machine by package, NUMA node and die, in this order. CPUs without a NUMA
// node are the last of their package.
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

// cellsOf returns the cells of some CPUs, in order of the caches' ids.
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

// bytesText formats a size of memory in its largest unit, with three digits.
func bytesText(n uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	size, unit := float64(n), 0
	for size >= 999.5 && unit < len(units)-1 {
		size /= 1024
		unit++
	}
	return fmt.Sprintf("%.3g %s", size, units[unit])
}

// core is a column of the map: a physical core and its online threads in ascending order.
type core struct {
	kind    topology.Kind
	threads []cpuset.CPU
}

// segment is a run of cores whose CPU numbers count up in equal steps: thread r of core k is CPU
// first[r] + k*step. Each of these CPUs is online or offline; none is absent.
type segment struct {
	kind  topology.Kind
	first []cpuset.CPU // per row
	step  int          // at least 1; not used for one core
	cores int
}

func (s segment) cpu(r, k int) cpuset.CPU { return s.first[r] + cpuset.CPU(k*s.step) }

// label lists the CPUs of row r: "4", "0-3", "0,2..14".
func (s segment) label(r int) string {
	from, to := s.first[r], s.cpu(r, s.cores-1)
	switch {
	case s.cores == 1:
		return fmt.Sprint(from)
	case s.step == 1:
		return fmt.Sprintf("%d-%d", from, to)
	case s.cores == 2:
		return fmt.Sprintf("%d,%d", from, to)
	default:
		return fmt.Sprintf("%d,%d..%d", from, s.cpu(r, 1), to)
	}
}

// longestLabel is an upper bound of the length of any part's label.
func (s segment) longestLabel() int {
	last := s.cpu(len(s.first)-1, s.cores-1)
	if s.step == 1 {
		return len(fmt.Sprintf("%d-%d", last, last))
	}
	return len(fmt.Sprintf("%d,%d..%d", last, last, last))
}

// coresOf returns the cores of some CPUs in order of their lowest CPU.
func coresOf(m *topology.Machine, cpus cpuset.Set) []core {
	var cores []core
	index := map[topology.CoreID]int{}
	for id := range cpus.All() {
		c, _ := m.CPU(id)
		i, ok := index[c.Core]
		if !ok {
			i = len(cores)
			index[c.Core] = i
			cores = append(cores, core{kind: c.Kind})
		}
		cores[i].threads = append(cores[i].threads, id)
	}
	slices.SortFunc(cores, func(a, b core) int { return cmp.Compare(a.threads[0], b.threads[0]) })
	return cores
}

// segments divides cores into segments in a single pass. A core joins the segment before it if its
// kind is the same and its threads continue the rows. A row may lack a thread only if that thread
// is offline.
func segments(cores []core, offline cpuset.Set) []segment {
	var out []segment
	for _, c := range cores {
		if n := len(out); n > 0 && out[n-1].extend(c, offline) {
			continue
		}
		out = append(out, segment{kind: c.kind, first: c.threads, step: 1, cores: 1})
	}
	return out
}

// extend adds the core as the next column and reports whether it fits.
func (s *segment) extend(c core, offline cpuset.Set) bool {
	if c.kind != s.kind {
		return false
	}
	if s.cores > 1 {
		if !s.fits(c, s.step, offline) {
			return false
		}
		s.cores++
		return true
	}
	for _, first := range s.first {
		step := int(c.threads[0] - first)
		if step > 0 && s.fits(c, step, offline) {
			s.step = step
			s.cores++
			return true
		}
	}
	return false
}

// fits reports whether the core's threads are those of the next column, except for offline ones.
func (s *segment) fits(c core, step int, offline cpuset.Set) bool {
	found := 0
	for _, first := range s.first {
		cpu := first + cpuset.CPU(s.cores*step)
		switch {
		case slices.Contains(c.threads, cpu):
			found++
		case !offline.Contains(cpu):
			return false
		}
	}
	return found == len(c.threads)
}

// cut divides the segment into parts of at most n columns. Their sizes are as equal as whole groups
// of eight allow.
func (s segment) cut(n int) []segment {
	if s.cores <= n {
		return []segment{s}
	}
	parts := (s.cores + n - 1) / n
	size := (s.cores + parts - 1) / parts
	if rounded := (size + groupSize - 1) / groupSize * groupSize; rounded <= n {
		size = rounded
	}
	var out []segment
	for from := 0; from < s.cores; from += size {
		part := segment{kind: s.kind, step: s.step, cores: min(size, s.cores-from)}
		for r := range s.first {
			part.first = append(part.first, s.cpu(r, from))
		}
		out = append(out, part)
	}
	return out
}

// groupSize is the number of columns between two gaps in a row, which help to count.
const groupSize = 8
