package cgroup

import "pinfold.dev/pinfold/core/bandwidth"

// bandwidthPlan is the plan of quota, period and burst. Invariant of version 1: the
// ratio of a limited group is at or below that of its nearest limited ancestor,
// before and after each write.
type bandwidthPlan struct {
	layout Layout
	now    map[*node]bandwidth.Limits // quota and period on the way
	writes []Write
}

func (t *tree) bandwidths(l Layout) []Write {
	b := &bandwidthPlan{layout: l, now: make(map[*node]bandwidth.Limits, len(t.nodes))}
	for _, n := range t.nodes {
		b.now[n] = n.Present.WithoutBurst()
	}
	lowered := func(n *node) bool { return ratio(target(n)) < ratio(b.now[n]) }
	var lower []*node
	for _, n := range t.nodes {
		switch {
		case !n.Wanted.bandwidth():
		case lowered(n):
			lower = append(lower, n)
		default:
			b.group(n)
		}
	}
	for i := len(lower) - 1; i >= 0; i-- {
		b.group(lower[i])
	}
	return b.writes
}

func target(n *node) bandwidth.Limits { return n.Target().WithoutBurst() }

// group plans one group. Invariant: burst is at most quota, unless unlimited.
func (b *bandwidthPlan) group(n *node) {
	had, gets, to := n.Present.Burst, n.Target().Burst, target(n)
	if gets < had {
		b.write(n, b.layout.burst(), formatMicroseconds(gets))
	}
	rewritten := b.now[n] != to && b.layout.CPU == V2
	switch {
	case b.now[n] == to:
	case b.layout.CPU == V2:
		b.write(n, CPUMax, formatCPUMax(to))
	default:
		for _, step := range b.steps(n, to) {
			if step.Quota != b.now[n].Quota {
				b.write(n, CPUCFSQuota, formatQuota(step.Quota))
			} else {
				b.write(n, CPUCFSPeriod, formatMicroseconds(step.Period))
			}
			b.now[n] = step
		}
	}
	b.now[n] = to
	if gets > had {
		b.write(n, b.layout.burst(), formatMicroseconds(gets))
	} else if rewritten && gets > 0 {
		b.writes = append(b.writes, Write{Path: n.Path, File: CPUMaxBurst, Value: formatMicroseconds(gets), IfDiffers: true})
	}
}

func (b *bandwidthPlan) write(n *node, f File, value string) {
	b.writes = append(b.writes, Write{Path: n.Path, File: f, Value: value})
}

// steps returns the states of quota and period on the way to the last one, each
// one file away from the one before. A period that does not matter is written
// while the quota is unlimited.
func (b *bandwidthPlan) steps(n *node, to bandwidth.Limits) []bandwidth.Limits {
	from := b.now[n]
	if from.Quota == to.Quota || from.Period == to.Period {
		return []bandwidth.Limits{to}
	}
	atMost, atLeast := b.bounds(n, from, to)
	for _, middle := range []bandwidth.Limits{{Quota: from.Quota, Period: to.Period}, {Quota: to.Quota, Period: from.Period}} {
		if r := ratio(middle); r == unlimitedRatio || atLeast <= r && r <= atMost {
			return []bandwidth.Limits{middle, to}
		}
	}
	return []bandwidth.Limits{{Quota: bandwidth.Unlimited, Period: from.Period}, {Quota: bandwidth.Unlimited, Period: to.Period}, to}
}

// bounds returns what the ratio of a group may be in between: at most that of the
// nearest limited ancestor, at least the highest of the limited groups below. A
// group whose ancestors are not listed stays within what it has and gets.
func (b *bandwidthPlan) bounds(n *node, from, to bandwidth.Limits) (atMost, atLeast uint64) {
	atMost = max(ratio(from), ratio(to))
	for at := n.parent; at != nil; at = at.parent {
		if r := ratio(b.now[at]); r != unlimitedRatio {
			atMost = r
			break
		}
	}
	return atMost, b.highestBelow(n)
}

// highestBelow returns the highest ratio of the nearest limited groups below: those
// further down are not above them.
func (b *bandwidthPlan) highestBelow(n *node) uint64 {
	var highest uint64
	for _, c := range n.children {
		r := ratio(b.now[c])
		if r == unlimitedRatio {
			r = b.highestBelow(c)
		}
		highest = max(highest, r)
	}
	return highest
}
