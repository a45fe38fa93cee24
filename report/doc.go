// Package report formats Pinfold's data as text for people. [MachineMap] draws the CPUs of a
// machine and who uses them; [Printable] makes a string safe to print; [Line], [Table] and [Wrap]
// lay out text.
//
// # The map of a machine
//
// [MachineMap] draws every online CPU of a machine as one character, on a terminal at least
// [MinWidth] wide:
//
//	┌ Package 0 · NUMA node 0 · 64 GiB ──────────────────────────────┐
//	│ LLC 0          LLC 1          LLC 2          LLC 3             │
//	│     0-3 AAAA       4-7 B...      8-11 ....     12-15 ....      │
//	│ 128-131 AAAA   132-135 B...   136-139 ....   140-143 ....      │
//	└────────────────────────────────────────────────────────────────┘
//
// A box is a package, a section of it a NUMA node (and die), a cell a last-level cache, a column a
// core, and a row one thread of each of these cores. The label of a row lists its CPU numbers, so
// that each character can be mapped to its CPU: "0-3", "0,2..14" (every second one), "7".
//
// Nothing is assumed about numbering or nesting. The cores of a cache, ordered by their lowest CPU,
// are cut into segments within which every row counts up in the same steps (see segments). A usual
// machine has one segment per cache; an irregular one has more, and the label is right on both. A
// cache or NUMA node that spans several parts of the drawing is drawn in each and marked "(part)".
// Offline CPUs have no core; they are drawn where the numbering of a row determines their place,
// and are always listed below the map.
//
// Each holder of exclusive CPUs is shown as a letter on its CPUs. Confinements (the shared CPUs
// that static-burst containers may use) overlap, so they are listed at the NUMA nodes that they
// cover. Characters convey all information; colour only repeats it.
package report
