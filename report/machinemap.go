package report

import (
	"bufio"
	"fmt"
	"io"
	"maps"
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

// MapOptions control [MachineMap]. The zero value draws only the machine, 80 characters wide,
// without colour.
type MapOptions struct {
	// Width is the maximum length of a line, DefaultWidth if 0.
	Width int
	// Colour adds ANSI colours. The caller checks that the writer is a terminal and NO_COLOR unset.
	Colour bool
	Owners []Owner
	// Reserved CPUs are reserved for the system and exclusive to no owner.
	Reserved cpuset.Set
	// Rest is the name of all other CPUs in the legend. The default is "shared" if there are owners
	// or reserved CPUs, otherwise "CPU".
	Rest string
}

// Owner holds CPUs exclusively or is confined to shared CPUs, such as a container.
type Owner struct {
	Name     string // in the legend
	CPUs     cpuset.Set
	Confined bool // to CPUs, which it shares with others
	// Symbol marks its CPUs. 0 selects the next free letter: a capital for exclusive CPUs, a small
	// letter for a confinement.
	Symbol rune
	Note   string // in the legend, after the CPUs
}

// MachineMap draws the machine as the package comment describes. A width below [MinWidth] is an
// error.
func MachineMap(w io.Writer, m *topology.Machine, opts MapOptions) error {
	if opts.Width == 0 {
		opts.Width = DefaultWidth
	}
	if opts.Width < MinWidth {
		return fmt.Errorf("draw machine: a width of %d characters is too small, use %d or more", opts.Width, MinWidth)
	}
	p := &printer{bufio.NewWriter(w), opts.Colour}
	k := newKey(m, opts)
	head := wrapped(separated(summary(m), ", "), opts.Width)
	for i, part := range [][]line{head, boxes(m, k, opts.Width), outside(m, opts.Width), distances(m, opts.Width), k.legend(opts.Width)} {
		if i > 0 && len(part) > 0 {
			p.print(nil)
		}
		for _, l := range part {
			p.print(l)
		}
	}
	return Flush(p.Writer, "draw machine")
}

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
	out = append(out, quantity.Count(len(m.NUMANodes), "NUMA node"), quantity.Count(len(m.LLCs()), "LLC")+llcSizes(m),
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

// llcSizes returns " of 16 MiB", or " of 16 MiB to 32 MiB", if the sizes of all caches are known.
func llcSizes(m *topology.Machine) string {
	sizes := slices.Sorted(maps.Values(m.LLCBytes))
	if len(sizes) == 0 || len(sizes) < len(m.LLCs()) {
		return ""
	}
	smallest, largest := bytesText(sizes[0]), bytesText(sizes[len(sizes)-1])
	if smallest == largest {
		return " of " + smallest
	}
	return " of " + smallest + " to " + largest
}

// outside describes what the boxes do not show: NUMA nodes without CPUs, and CPUs that are offline,
// isolated or of nohz_full.
func outside(m *topology.Machine, width int) []line {
	var out []line
	add := func(head, list string) {
		tokens := append([]string{head + ": "}, separated(strings.Split(list, ","), ",")...)
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
	if !m.NoHZFull.IsEmpty() {
		add("CPUs of nohz_full", m.NoHZFull.String())
	}
	return out
}

// distances draws the matrix of NUMA distances, cut into pieces that fit the width. Rows are
// "from", columns "to".
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
	for from := 0; from < len(m.NUMANodes); from += perPiece {
		to := min(from+perPiece, len(m.NUMANodes))
		s := fmt.Sprintf("%s%*s", head, size+1, "")
		for _, n := range m.NUMANodes[from:to] {
			s += fmt.Sprintf(" %*d", size, n.ID)
		}
		out = append(out, text(s, dim))
		for _, n := range m.NUMANodes {
			s := fmt.Sprintf("%*d", len(head)+size+1, n.ID)
			l := text(s, dim)
			for _, distance := range n.Distances[from:to] {
				l = append(l, text(fmt.Sprintf(" %*d", size, distance), plain)...)
			}
			out = append(out, l)
		}
	}
	return out
}
