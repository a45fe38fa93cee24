package cgroup

import (
	"slices"

	"pinfold.dev/pinfold/core/bandwidth"
)

// bandwidthPlan plans quota, period and burst. Invariant of version 1: before and after each write,
// the ratio of a limited group is at most that of its nearest limited ancestor. Groups whose ratio
// does not fall go first, parents before children; the others follow, children before parents.
type bandwidthPlan struct {
	layout Layout
	now    map[*node]bandwidth.Limits // quota and period after the writes so far
	writes []Write
}

func (t *tree) bandwidths(l Layout) []Write {
	b := &bandwidthPlan{layout: l, now: make(map[*node]bandwidth.Limits, len(t.nodes))}
	for _, n := range t.nodes {
		b.now[n] = n.Present.WithoutBurst()
	}
	var lower []*node
	for _, n := range t.nodes {
		switch {
		case !n.Wanted.bandwidth():
		case ratio(target(n)) < ratio(b.now[n]):
			lower = append(lower, n)
		default:
			b.group(n)
		}
	}
	for _, n := range slices.Backward(lower) {
		b.group(n)
	}
	return b.writes
}

func target(n *node) bandwidth.Limits { return n.Target().WithoutBurst() }

// ratio is quota/period as the kernel compares them: to_ratio in kernel/sched/core.c, a fixed-point
// number with 20 fractional bits.
func ratio(l bandwidth.Limits) uint64 {
	if l.Quota == bandwidth.Unlimited || l.Period <= 0 {
		return unlimitedRatio
	}
	return uint64(l.Quota.Microseconds()) << 20 / uint64(l.Period.Microseconds())
}

// unlimitedRatio is larger than all others.
const unlimitedRatio = ^uint64(0)

// group plans one group. Invariant: burst is at most quota, unless that is unlimited. On kernels
// before 6.10, rewriting cpu.max divided the burst by 1000 (fixed in 49217ea147df), so the burst is
// read again.
func (b *bandwidthPlan) group(n *node) {
	from, burst, to := n.Present.Burst, n.Target().Burst, target(n)
	if burst < from {
		b.write(n, b.layout.burst(), formatMicroseconds(burst))
	}
	rewritten := b.now[n] != to && b.layout.CPU == V2
	if rewritten {
		b.write(n, CPUMax, formatCPUMax(to))
	} else if b.now[n] != to {
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
	if burst > from {
		b.write(n, b.layout.burst(), formatMicroseconds(burst))
	} else if rewritten && burst > 0 {
		b.writes = append(b.writes, Write{Path: n.Path, File: CPUMaxBurst, Value: formatMicroseconds(burst), IfDiffers: true})
	}
}

func (b *bandwidthPlan) write(n *node, f File, value string) {
	b.writes = append(b.writes, Write{Path: n.Path, File: f, Value: value})
}

// steps returns the states of quota and period up to the last one, each one write away from the one
// before. If no intermediate state is valid, the quota is unlimited in between.
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

// bounds returns the range of ratios that are valid for a group in between: at most that of the
// nearest limited ancestor, at least the highest of the limited groups below. Without such an
// ancestor in the list, the maximum is the larger one of the present and the final ratio.
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

// highestBelow returns the highest ratio of the nearest limited groups below. Groups further down
// cannot have a higher one.
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
