// Package report turns what Pinfold knows into text for people.
//
// # The map of a machine
//
// [MachineMap] draws every online CPU of a machine as one character, on a
// terminal of any width from [MinWidth]:
//
//	┌ Package 0 · NUMA node 0 · 64 GiB ──────────────────────────────┐
//	│ LLC 0          LLC 1          LLC 2          LLC 3             │
//	│     0-3 AAAA       4-7 B...      8-11 ....     12-15 ....      │
//	│ 128-131 AAAA   132-135 B...   136-139 ....   140-143 ....      │
//	└────────────────────────────────────────────────────────────────┘
//
// A box is a package, a part of it a NUMA node (and die), a cell a last-level
// cache, a column a core, a row one thread of each of these cores. The label of
// a row gives the CPU numbers in it, so that any character can be traced to its
// number: "0-3", "0,2..14" (every second one), "7".
//
// Nothing is assumed about numbering or nesting. The cores of a cache, by their
// lowest CPU, are cut into segments inside which every row counts up in the same
// steps (see segments); on the usual machine that is one segment per cache, on
// an odd one more, and the label is right on both. A cache or NUMA node that
// reaches over several parts of the drawing is drawn in each and marked "(part)".
// CPUs that are offline have no core; they are drawn where the numbering of a row
// leaves no doubt about their place, and listed below the map in any case.
//
// Whoever holds CPUs alone is drawn by a letter on them. Confinements (the
// shared CPUs that static-burst containers may use) overlap, so they are not
// drawn on the CPUs but named in the NUMA nodes that they cover. Everything is
// told by characters; colour only repeats it.
package report
