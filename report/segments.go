package report

import (
	"cmp"
	"fmt"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// core is one column of the map: a physical core and its online threads in
// ascending order.
type core struct {
	kind    topology.Kind
	threads []cpuset.CPU
}

// segment is a run of cores whose threads count up in equal steps: thread r of
// core k is CPU first[r] + k*step. A CPU that this formula names and that is
// not online is offline, never absent.
type segment struct {
	kind  topology.Kind
	first []cpuset.CPU // per row
	step  int          // at least 1; meaningless for one core
	cores int
}

// cpu returns the CPU in row r and column k.
func (s segment) cpu(r, k int) cpuset.CPU { return s.first[r] + cpuset.CPU(k*s.step) }

// label names the CPUs of row r: "4", "0-3", "0,2..14".
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

// longestLabel bounds the label of any part of the segment.
func (s segment) longestLabel() int {
	last := s.cpu(len(s.first)-1, s.cores-1)
	if s.step == 1 {
		return len(fmt.Sprintf("%d-%d", last, last))
	}
	return len(fmt.Sprintf("%d,%d..%d", last, last, last))
}

// coresOf returns the cores of some of the machine's CPUs by their lowest CPU.
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

// segments cuts cores into as few runs as a single pass finds. A core joins the
// segment before it when its kind is the same and its threads continue the rows;
// a row may miss a thread there only when that thread is offline.
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

// extend adds the core as the next column if it fits, and reports whether it did.
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

// fits reports whether the core's threads are those of the next column, but for
// offline ones.
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

// cut divides the segment into parts of at most n columns, as even as whole
// groups of eight allow.
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

// groupSize is the number of columns between the gaps of a row, for counting.
const groupSize = 8
