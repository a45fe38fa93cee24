package cgroup

import (
	"maps"
	"path"

	cfs "pinfold.dev/pinfold/core/bandwidth"
)

// Invalid returns, by group, what cannot be valid in the wanted settings: by
// themselves, for this kernel, or beside the settings that the groups above will
// have. A contradiction is put down to the lower group, unless nothing of it is to
// change.
func Invalid(l Layout, changes []Change) map[string]error {
	errs := map[string]error{}
	for _, c := range changes {
		c.Path = path.Clean("/" + c.Path)
		if err := c.check(l); err != nil {
			errs[c.Path] = err
		}
	}
	for { // a group that stays as it is may contradict another one's change
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

// check returns what is wrong with the wanted settings of one group by themselves.
func (c Change) check(l Layout) error {
	t := c.Target()
	if c.Wanted.Burst != nil && *c.Wanted.Burst != 0 && c.Present.NoBurst {
		return invalidAs(c.Path, &UnsupportedError{string(l.burst()), l.burst().since()})
	}
	if c.Wanted.Idle != nil && *c.Wanted.Idle && c.Present.NoIdle {
		return invalidAs(c.Path, &UnsupportedError{string(CPUIdle), CPUIdle.since()})
	}
	if w := c.Wanted.Weight; w != nil {
		low, high := Weight(minShares), Weight(maxShares)
		if l.CPU == V2 {
			low, high = minWeight, maxWeight
		}
		if *w < low || *w > high {
			return invalid(c.Path, "%s %d is not within %d to %d", l.weight(), *w, low, high)
		}
		if t.Idle {
			return invalid(c.Path, "a weight for an idle group: it has none")
		}
	}
	if !c.Wanted.bandwidth() {
		return nil
	}
	return t.checkBandwidth(c.Path)
}

func (s Settings) checkBandwidth(path string) error {
	if err := (cfs.Limits{Quota: s.Quota, Period: s.Period, Burst: s.Burst}).Validate(); err != nil {
		return invalid(path, "%v", err)
	}
	return nil
}

// contradictions notes where the target of a group is not within that of a group
// above, which version 1 refuses. Nothing is noted about two groups that stay as
// they are: what is there is the kernel's affair.
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
