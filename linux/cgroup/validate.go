package cgroup

import (
	"maps"
	"path"
)

// The ranges of cpu.shares, MIN_SHARES and MAX_SHARES in kernel/sched/sched.h, and of cpu.weight,
// CGROUP_WEIGHT_MIN and CGROUP_WEIGHT_MAX.
const (
	minShares Weight = 2
	maxShares Weight = 1 << 18
	minWeight Weight = 1
	maxWeight Weight = 10000
)

// Weights returns the least and the largest weight of a group.
func (l Layout) Weights() (least, most Weight) {
	if l.CPU == V2 {
		return minWeight, maxWeight
	}
	return minShares, maxShares
}

// findInvalid returns, by group, the wanted settings that cannot be valid: by themselves, on this
// kernel, or together with the settings that the groups above will have. The error of a
// contradiction is assigned to the lower group, unless nothing relevant is wanted there.
func findInvalid(l Layout, changes []Change) map[string]error {
	errs := map[string]error{}
	for _, c := range changes {
		c.Path = path.Clean("/" + c.Path)
		if err := c.check(l); err != nil {
			errs[c.Path] = err
		}
	}
	for { // without the changes found so far, others may be contradictions
		found := map[string]error{}
		for _, n := range newTree(changes, errs).nodes {
			n.contradictions(l, found)
		}
		if len(found) == 0 {
			return errs
		}
		maps.Copy(errs, found)
	}
}

// check checks the wanted settings of one group by themselves.
func (c Change) check(l Layout) error {
	t := c.Target()
	if c.Wanted.Burst != nil && *c.Wanted.Burst != 0 && c.Present.NoBurst {
		return invalid(c.Path, "%w", l.burst().missing())
	}
	if c.Wanted.Idle != nil && *c.Wanted.Idle && c.Present.NoIdle {
		return invalid(c.Path, "%w", CPUIdle.missing())
	}
	if c.Wanted.BVT != nil && *c.Wanted.BVT != 0 && c.Present.NoBVT {
		return invalid(c.Path, "%w", CPUBVT.missing())
	}
	if t.Partition.Is() && c.Wanted.Partition != nil {
		switch {
		case c.Present.NoPartition && l.CPUSet == V1:
			return invalid(c.Path, "version 1 has no partitions: use version 2")
		case c.Present.NoPartition:
			return invalid(c.Path, "%w", CPUSetExclusive.missing())
		case !t.CPUs.IsSubsetOf(t.Exclusive) || t.CPUs.IsEmpty():
			return invalid(c.Path, "a partition of CPUs %q needs these as exclusive CPUs, and they are %q", t.CPUs, t.Exclusive)
		}
	}
	if w := c.Wanted.Weight; w != nil {
		low, high := l.Weights()
		if *w < low || *w > high {
			return invalid(c.Path, "%s %d is not within %d to %d", l.weight(), *w, low, high)
		}
		if t.Idle {
			return invalid(c.Path, "idle groups have no weight")
		}
	}
	if c.Wanted.bandwidth() {
		if err := t.Validate(); err != nil {
			return invalid(c.Path, "%w", err)
		}
	}
	return nil
}

// contradictions adds an error to found if the target of a group exceeds that of a group above,
// which version 1 rejects. It ignores contradictions between groups that do not change.
func (n *node) contradictions(l Layout, found map[string]error) {
	note := func(above *node, changes func(*node) bool, format string, args ...any) {
		switch {
		case changes(n):
			found[n.Path] = invalid(n.Path, format, args...)
		case changes(above):
			found[above.Path] = invalid(above.Path, format, args...)
		}
	}
	t := n.Target()
	if above := n.parent; above != nil && l.CPUSet == V1 && !t.CPUs.IsSubsetOf(above.Target().CPUs) {
		note(above, func(n *node) bool { return n.Wanted.CPUs != nil }, "CPUs %q of %s are not within %q of %s",
			t.CPUs, n.Path, above.Target().CPUs, above.Path)
	}
	above := n.parent
	for above != nil && ratio(target(above)) == unlimitedRatio {
		above = above.parent
	}
	if above == nil || l.CPU != V1 || ratio(target(n)) == unlimitedRatio {
		return
	}
	if a := above.Target(); ratio(target(n)) > ratio(target(above)) {
		note(above, func(n *node) bool { return n.Wanted.bandwidth() }, "quota %v per %v of %s is above %v per %v of %s",
			t.Quota, t.Period, n.Path, a.Quota, a.Period, above.Path)
	}
}
