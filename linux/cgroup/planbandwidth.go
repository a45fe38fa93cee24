package cgroup

import "time"

// limit is quota and period of a group on the way.
type limit struct{ quota, period time.Duration }

func (l limit) ratio() uint64 { return ratio(l.quota, l.period) }

// bandwidthPlan is the plan of quota, period and burst. Invariant of version 1: the
// ratio of a limited group is at or below that of its nearest limited ancestor,
// before and after each write.
type bandwidthPlan struct {
	layout Layout
	now    map[*node]limit
	writes []Write
}

func (t *tree) bandwidths(l Layout) []Write {
	b := &bandwidthPlan{layout: l, now: make(map[*node]limit, len(t.nodes))}
	for _, n := range t.nodes {
		b.now[n] = limit{n.Present.Quota, n.Present.Period}
	}
	lowered := func(n *node) bool { return target(n).ratio() < b.now[n].ratio() }
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

func target(n *node) limit {
	t := n.Target()
	return limit{t.Quota, t.Period}
}

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
		b.write(n, CPUMax, formatCPUMax(to.quota, to.period))
	default:
		for _, step := range b.steps(n, to) {
			if step.quota != b.now[n].quota {
				b.write(n, CPUCFSQuota, formatQuota(step.quota))
			} else {
				b.write(n, CPUCFSPeriod, formatMicroseconds(step.period))
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
func (b *bandwidthPlan) steps(n *node, to limit) []limit {
	from := b.now[n]
	if from.quota == to.quota || from.period == to.period {
		return []limit{to}
	}
	atMost, atLeast := b.bounds(n, from, to)
	for _, middle := range []limit{{from.quota, to.period}, {to.quota, from.period}} {
		if r := middle.ratio(); r == unlimitedRatio || atLeast <= r && r <= atMost {
			return []limit{middle, to}
		}
	}
	return []limit{{Unlimited, from.period}, {Unlimited, to.period}, to}
}

// bounds returns what the ratio of a group may be in between: at most that of the
// nearest limited ancestor, at least the highest of the limited groups below. A
// group whose ancestors are not listed stays within what it has and gets.
func (b *bandwidthPlan) bounds(n *node, from, to limit) (atMost, atLeast uint64) {
	atMost = max(from.ratio(), to.ratio())
	for at := n.parent; at != nil; at = at.parent {
		if r := b.now[at].ratio(); r != unlimitedRatio {
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
		r := b.now[c].ratio()
		if r == unlimitedRatio {
			r = b.highestBelow(c)
		}
		highest = max(highest, r)
	}
	return highest
}
