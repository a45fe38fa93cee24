package cgroup

import (
	"cmp"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"pinfold.dev/pinfold/core/bandwidth"
)

// Change is what one group has and what it should have. Of Present only what
// Wanted touches is looked at, and, for the order, CPUs when any group's CPUs are
// wanted, quota and period when any group's bandwidth is.
type Change struct {
	Path    string
	Present Settings
	Wanted  Wanted
}

// Write is one value for one file.
type Write struct {
	Path  string
	File  File
	Value string
	// IfDiffers says that the value should be there already: it is written only
	// when the file reads otherwise.
	IfDiffers bool
}

// Plan returns the writes that lead from present to wanted settings, in an order
// in which the kernel accepts each of them; see the package comment. List groups
// above and below those to be changed too, with nothing wanted, where their
// settings limit what the order can be.
//
// Settings that cannot be valid are left out, and the error says which: it wraps
// ErrInvalid, or is an UnsupportedError. The writes for the others are returned
// with it.
func Plan(l Layout, changes []Change) ([]Write, error) {
	errs := Invalid(l, changes)
	return plan(l, changes, errs), joined(errs)
}

func plan(l Layout, changes []Change, invalid map[string]error) []Write {
	t := newTree(changes, invalid)
	writes := t.cpusets(l)
	for _, n := range t.nodes {
		writes = append(writes, n.weight(l)...)
	}
	return append(writes, t.bandwidths(l)...)
}

// node is a group in the making of a plan.
type node struct {
	Change
	parent   *node // the nearest group above that is listed
	children []*node
	skip     bool // wanted settings are not valid
}

// tree is the listed groups, parents before children.
type tree struct{ nodes []*node }

func newTree(changes []Change, invalid map[string]error) *tree {
	t := &tree{}
	byPath := make(map[string]*node, len(changes))
	for _, c := range changes {
		c.Path = path.Clean("/" + c.Path)
		n := &node{Change: c, skip: invalid[c.Path] != nil}
		if n.skip {
			n.Wanted = Wanted{}
		}
		t.nodes = append(t.nodes, n)
		byPath[c.Path] = n
	}
	slices.SortFunc(t.nodes, func(a, b *node) int {
		return cmp.Or(cmp.Compare(depth(a.Path), depth(b.Path)), cmp.Compare(a.Path, b.Path))
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

func depth(p string) int {
	if p == "/" {
		return 0
	}
	return strings.Count(p, "/")
}

// bottomUp yields children before parents.
func (t *tree) bottomUp(yield func(*node) bool) {
	for _, n := range slices.Backward(t.nodes) {
		if !yield(n) {
			return
		}
	}
}

// weight plans cpu.idle and cpu.shares or cpu.weight. Clearing idle sets the
// default weight (sched_group_set_idle in kernel/sched/fair.c).
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
	return t
}

func set[T any](value *T, wanted *T) {
	if wanted != nil {
		*value = *wanted
	}
}

// ratio is quota/period as the kernel compares them: to_ratio in
// kernel/sched/core.c, a fixed-point number with 20 bits after the point.
func ratio(l bandwidth.Limits) uint64 {
	if l.Quota == bandwidth.Unlimited || l.Period <= 0 {
		return unlimitedRatio
	}
	return uint64(l.Quota.Microseconds()) << 20 / uint64(l.Period.Microseconds())
}

// unlimitedRatio is above every other one.
const unlimitedRatio = ^uint64(0)

// joined makes one error of many, in the order of their groups.
func joined(errs map[string]error) error {
	paths := make([]string, 0, len(errs))
	for p := range errs {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	var all []error
	for _, p := range paths {
		all = append(all, errs[p])
	}
	return errors.Join(all...)
}
