package cgroup

import (
	"cmp"
	"errors"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"pinfold.dev/pinfold/core/cpuset"
)

// Change is the present and wanted settings of a group. Of Present, Plan uses only the settings
// that are wanted. To find the order, it also uses the CPUs of every group if any CPUs are wanted,
// and the quota and period of every group if any bandwidth is wanted.
type Change struct {
	Path    string
	Present Settings
	Wanted  Wanted
}

// Write is a value for a file.
type Write struct {
	Path  string
	File  File
	Value string
	// IfDiffers skips the write if the file already has the value.
	IfDiffers bool
}

// Plan returns the writes that lead from present to wanted settings, in an order in which the
// kernel accepts each of them: partitions that end, CPUs, partitions, weights, bandwidth. Version 2
// accepts any order of groups; it gets that of version 1, so that no group's effective CPUs leave
// the union of old and new in between. (A group without a CPU list of its own uses its parent's,
// and so does one whose CPUs are disjoint from the parent's.) If the settings of groups above and
// below restrict the order, include them in changes with nothing wanted.
//
// Plan omits groups whose wanted settings cannot be valid. It returns the writes for the other
// groups, and an error that wraps ErrInvalid and, if the kernel lacks a file, a
// [feature.UnsupportedError].
func Plan(l Layout, changes []Change) ([]Write, error) {
	errs := findInvalid(l, changes)
	return plan(l, changes, errs), joined(errs)
}

func plan(l Layout, changes []Change, invalid map[string]error) []Write {
	t := newTree(changes, invalid)
	writes := append(t.endPartitions(), t.cpusets(l)...)
	writes = append(writes, t.makePartitions()...)
	for _, n := range t.nodes {
		writes = append(writes, n.weight(l)...)
		if want := n.Wanted.BVT; want != nil && *want != n.Present.BVT {
			// A group above may have passed the value on.
			writes = append(writes, Write{Path: n.Path, File: CPUBVT, Value: strconv.Itoa(*want), IfDiffers: true})
		}
	}
	return append(writes, t.bandwidths(l)...)
}

// node is a group of a plan.
type node struct {
	Change
	parent   *node // the nearest listed group above
	children []*node
}

// tree is the listed groups, parents before children.
type tree struct{ nodes []*node }

// newTree arranges the groups. Those with invalid settings are included with nothing wanted.
func newTree(changes []Change, invalid map[string]error) *tree {
	t := &tree{}
	byPath := make(map[string]*node, len(changes))
	for _, c := range changes {
		c.Path = path.Clean("/" + c.Path)
		n := &node{Change: c}
		if invalid[c.Path] != nil {
			n.Wanted = Wanted{}
		}
		t.nodes = append(t.nodes, n)
		byPath[c.Path] = n
	}
	slices.SortFunc(t.nodes, func(a, b *node) int {
		return cmp.Or(cmp.Compare(strings.Count(a.Path, "/"), strings.Count(b.Path, "/")), cmp.Compare(a.Path, b.Path))
	})
	for _, n := range t.nodes {
		for at := n.Path; at != "/" && n.parent == nil; {
			at = path.Dir(at)
			n.parent = byPath[at]
		}
		if n.parent != nil {
			n.parent.children = append(n.parent.children, n)
		}
	}
	return t
}

// weight plans cpu.idle and cpu.shares or cpu.weight. Idle groups have no weight of their own, so
// idle is cleared before the weight is written. Clearing idle sets the default weight
// (sched_group_set_idle in kernel/sched/fair.c).
func (n *node) weight(l Layout) []Write {
	var writes []Write
	present, idle := n.Present.Weight, n.Present.Idle
	if want := n.Wanted.Idle; want != nil && *want != idle {
		writes = append(writes, Write{Path: n.Path, File: CPUIdle, Value: formatFlag(*want)})
		idle, present = *want, 1024
		if l.CPU == V2 {
			present = 100
		}
	}
	if want := n.Wanted.Weight; want != nil && !idle && *want != present {
		writes = append(writes, Write{Path: n.Path, File: l.weight(), Value: strconv.FormatUint(uint64(*want), 10)})
	}
	return writes
}

// Target returns the settings that the group has after the wanted settings are written.
func (c Change) Target() Settings {
	t := c.Present
	set(&t.CPUs, c.Wanted.CPUs)
	set(&t.Quota, c.Wanted.Quota)
	set(&t.Period, c.Wanted.Period)
	set(&t.Burst, c.Wanted.Burst)
	set(&t.Weight, c.Wanted.Weight)
	set(&t.Idle, c.Wanted.Idle)
	set(&t.BVT, c.Wanted.BVT)
	set(&t.Exclusive, c.Wanted.Exclusive)
	if c.Wanted.Partition != nil {
		t.Partition = PartitionState{Kind: *c.Wanted.Partition}
	}
	return t
}

func set[T any](value, wanted *T) {
	if wanted != nil {
		*value = *wanted
	}
}

// everything stands for the empty cpuset of version 2, which means all of the parent's CPUs.
func everything() cpuset.Set { return cpuset.Range(0, cpuset.MaxCPUs-1) }

// transition is a group's present and final CPUs.
type transition struct{ now, target cpuset.Set }

// cpusets plans cpuset.cpus. Invariant of version 1: before and after each write, now is a subset
// of the parent's now. Groups that only give up CPUs come first, so that these are free before
// other groups take them. A group that loses some CPUs and gains others keeps both as long as a
// child needs the old ones.
func (t *tree) cpusets(l Layout) []Write {
	state := make(map[*node]*transition, len(t.nodes))
	mask := func(s cpuset.Set) cpuset.Set {
		if l.CPUSet == V2 && s.IsEmpty() {
			return everything()
		}
		return s
	}
	for _, n := range t.nodes {
		state[n] = &transition{mask(n.Present.CPUs), mask(n.Target().CPUs)}
	}
	var writes []Write
	write := func(n *node, s cpuset.Set) {
		state[n].now = s
		if s == everything() {
			s = cpuset.Set{}
		}
		writes = append(writes, Write{Path: n.Path, File: CPUSetCPUs, Value: s.String()})
	}
	childrenWithin := func(n *node, s cpuset.Set) bool {
		return !slices.ContainsFunc(n.children, func(c *node) bool { return !state[c].now.IsSubsetOf(s) })
	}
	for _, n := range slices.Backward(t.nodes) { // narrow groups that only give up CPUs
		if m := state[n]; m.now != m.target && m.target.IsSubsetOf(m.now) && childrenWithin(n, m.target) {
			write(n, m.target)
		}
	}
	for _, n := range t.nodes { // widen
		switch m := state[n]; {
		case m.target.IsSubsetOf(m.now):
		case childrenWithin(n, m.target):
			write(n, m.target)
		default:
			write(n, m.now.Union(m.target))
		}
	}
	for _, n := range slices.Backward(t.nodes) { // narrow
		if m := state[n]; m.now != m.target {
			write(n, m.target)
		}
	}
	return writes
}

// joined joins errors in the order of their groups.
func joined(errs map[string]error) error {
	var all []error
	for _, p := range slices.Sorted(maps.Keys(errs)) {
		all = append(all, errs[p])
	}
	return errors.Join(all...)
}
