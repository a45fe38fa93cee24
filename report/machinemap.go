package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/topology"
)

// Widths of a map in characters.
const (
	DefaultWidth = 80
	MinWidth     = 40
)

// MapOptions say how [MachineMap] draws. The zero value draws the machine alone,
// 80 characters wide, without colour.
type MapOptions struct {
	// Width is the largest number of characters in a line, DefaultWidth when 0.
	Width int
	// Colour repeats in ANSI colours what the characters say. The caller knows
	// whether the writer is a terminal and NO_COLOR is unset.
	Colour bool
	// Owners are who holds CPUs, or is confined to some.
	Owners []Owner
	// Reserved CPUs are kept for the system: never exclusive to an owner.
	Reserved cpuset.Set
	// Rest is what the legend calls CPUs that nothing else is known of. Empty means
	// "shared" when there are owners or reserved CPUs, otherwise "CPU".
	Rest string
}

// Owner is somebody who has CPUs: a container of a pod, say.
type Owner struct {
	// Name is shown in the legend.
	Name string
	// CPUs are its own, or with Confined those that it shares with others.
	CPUs cpuset.Set
	// Confined says that the CPUs are not its own: it may run there and nowhere else.
	Confined bool
	// Symbol marks its CPUs. 0 takes the next free letter, capitals for
	// owners of CPUs, small ones for the confined.
	Symbol rune
	// Note is shown behind the CPUs in the legend.
	Note string
}

// MachineMap draws the machine as the package comment describes. It returns an
// error when opts.Width is below [MinWidth], and the writer's.
func MachineMap(w io.Writer, m *topology.Machine, opts MapOptions) error {
	if opts.Width == 0 {
		opts.Width = DefaultWidth
	}
	if opts.Width < MinWidth {
		return fmt.Errorf("draw machine: a width of %d characters is too small, use %d or more", opts.Width, MinWidth)
	}
	p := newPrinter(w, opts.Colour)
	k := newKey(m, opts)
	for _, s := range wrap(joined(summary(m), ", "), opts.Width) {
		p.print(text(s, plain))
	}
	p.print(nil)
	for _, l := range boxes(m, k, opts.Width) {
		p.print(l)
	}
	for _, part := range [][]line{outside(m, opts.Width), distances(m, opts.Width), k.legend(opts.Width)} {
		if len(part) > 0 {
			p.print(nil)
		}
		for _, l := range part {
			p.print(l)
		}
	}
	if err := p.w.Flush(); err != nil {
		return fmt.Errorf("draw machine: %w", err)
	}
	return nil
}

// summary counts the parts of the machine.
func summary(m *topology.Machine) []string {
	cores := m.Cores()
	smallest, largest := len(m.CPUs), 0
	for _, c := range cores {
		smallest, largest = min(smallest, c.CPUs.Len()), max(largest, c.CPUs.Len())
	}
	threads := fmt.Sprintf(" of %d", smallest)
	if smallest < largest {
		threads += fmt.Sprintf(" to %d", largest)
	}
	out := []string{
		quantity.Count(len(m.CPUs), "CPU") + " online",
		quantity.Count(len(m.Packages()), "package"),
	}
	if dies := len(m.Dies()); dies != len(m.Packages()) {
		out = append(out, quantity.Count(dies, "die"))
	}
	out = append(out, quantity.Count(len(m.NUMANodes), "NUMA node"), quantity.Count(len(m.LLCs()), "LLC"),
		quantity.Count(len(cores), "core")+threads+" "+quantity.Plural(largest, "thread"))
	if len(m.Kinds) > 1 {
		for _, kind := range m.Kinds {
			n := m.CPUsOfKind(kind).Len()
			if kind == "" {
				kind = "unknown"
			}
			out = append(out, fmt.Sprintf("%s of kind %s", quantity.Count(n, "CPU"), kind))
		}
	}
	return out
}

// outside tells what has no place in the boxes.
func outside(m *topology.Machine, width int) []line {
	var out []line
	add := func(head, list string) {
		tokens := append([]string{head + ": "}, joined(strings.Split(list, ","), ",")...)
		for i, s := range wrap(tokens, width-2) {
			if i > 0 {
				s = "  " + s
			}
			out = append(out, text(s, plain))
		}
	}
	for _, n := range m.NUMANodes {
		if !n.CPUs.IsEmpty() {
			continue
		}
		head := fmt.Sprintf("NUMA node %d without CPUs", n.ID)
		if n.MemoryBytes > 0 {
			head += ", " + bytesText(n.MemoryBytes)
		}
		if n.LocalCPUs.IsEmpty() {
			out = append(out, text(head, plain))
			continue
		}
		add(head+", local to CPUs", n.LocalCPUs.String())
	}
	if !m.Offline.IsEmpty() {
		add("Offline CPUs", m.Offline.String())
	}
	if !m.Isolated.IsEmpty() {
		add("Isolated CPUs", m.Isolated.String())
	}
	return out
}

// distances draws the matrix of distances between NUMA nodes, in as many pieces
// side by side as the width asks for. Rows are "from", columns "to".
func distances(m *topology.Machine, width int) []line {
	if len(m.NUMANodes) < 2 {
		return nil
	}
	const head = "NUMA distances"
	size := 0
	for _, n := range m.NUMANodes {
		size = max(size, len(fmt.Sprint(n.ID)))
		for _, d := range n.Distances {
			size = max(size, len(fmt.Sprint(d)))
		}
	}
	perPiece := (width - len(head) - size - 1) / (size + 1)
	var out []line
	columns := make([]int, len(m.NUMANodes))
	for i := range columns {
		columns[i] = i
	}
	for piece := range slices.Chunk(columns, perPiece) {
		s := fmt.Sprintf("%s%*s", head, size+1, "")
		for _, to := range piece {
			s += fmt.Sprintf(" %*d", size, m.NUMANodes[to].ID)
		}
		out = append(out, text(s, dim))
		for _, n := range m.NUMANodes {
			s := fmt.Sprintf("%*d", len(head)+size+1, n.ID)
			l := text(s, dim)
			for _, to := range piece {
				l = append(l, text(fmt.Sprintf(" %*d", size, n.Distances[to]), plain)...)
			}
			out = append(out, l)
		}
	}
	return out
}
