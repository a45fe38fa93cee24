package nodeplan

import (
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
)

// A set spreads to cores with a load of at most idleBelow, and gives back unneeded cores with a load of at
// least busyAbove. A core that replaces another one is idler by at least margin.
const idleBelow, busyAbove, margin ledger.MilliCPU = 100, 300, 250

// improve moves core sets towards idle CPUs, at most one core of each, so at a bounded rate. A core
// whose load is between the thresholds for idle and busy is neither added nor given back, and load does
// not count the static-burst containers themselves: so sets do not oscillate.
func (d *coreSetPlan) improve() {
	moved := make([]bool, len(d.longRunning))
	for i, b := range d.longRunning {
		moved[i] = d.giveBack(b) || d.exchange(b)
	}
	// Idle CPUs are given in turns, first to the container with the fewest CPUs beyond its need.
	order := make([]int, len(d.longRunning))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return (d.longRunning[i].set.Len() - d.longRunning[i].need) - (d.longRunning[j].set.Len() - d.longRunning[j].need)
	})
	for _, i := range order {
		if !moved[i] {
			d.spread(d.longRunning[i])
		}
	}
}

// giveBack removes the busiest core from a set if it is busy and not needed.
func (d *coreSetPlan) giveBack(b *burster) bool {
	extra := b.set.Len() - b.need
	core, ok := d.busiest(b.set)
	if extra <= 0 || !ok || d.background(core) < busyAbove {
		return false
	}
	for c := range d.cores[core].Intersection(b.set).All() {
		if extra > 0 {
			b.set.Remove(c)
			extra--
		}
	}
	return true
}

// exchange replaces the CPUs of the busiest core of a set by CPUs in no set of the idlest core, if
// that is worth it.
func (d *coreSetPlan) exchange(b *burster) bool {
	from, ok := d.busiest(b.set)
	if !ok {
		return false
	}
	replaced := d.cores[from].Intersection(b.set)
	free := b.region.Difference(d.held())
	to, ok := d.idlest(free, replaced.Len())
	if !ok || d.background(from)-d.background(to) < margin {
		return false
	}
	b.set = b.set.Difference(replaced)
	for c := range d.cores[to].Intersection(free).All() {
		if replaced.Len() > 0 {
			b.set.Add(c)
			replaced.Remove(replaced.First())
		}
	}
	return true
}

// spread extends a set by one more idle core that is in no set.
func (d *coreSetPlan) spread(b *burster) {
	free := b.region.Difference(d.held())
	if core, ok := d.idlest(free, 1); ok && d.background(core) <= idleBelow {
		b.set = b.set.Union(d.cores[core].Intersection(free))
	}
}

// background returns the mean load of all threads of a core: a thread is slower if its sibling is
// busy. All of improve uses this measure, which does not depend on the sets. So sets stop moving
// under constant load: a core that a set spreads to is never given back, and every exchange makes a
// set idler.
func (d *coreSetPlan) background(core int) (sum ledger.MilliCPU) {
	for c := range d.cores[core].All() {
		sum += d.load[c]
	}
	return sum / ledger.MilliCPU(d.cores[core].Len())
}

// busiest returns the busiest core with a CPU in the set, the lowest one among equals.
func (d *coreSetPlan) busiest(set cpuset.Set) (core int, found bool) {
	for i, threads := range d.cores {
		if threads.Intersects(set) && (!found || d.background(i) > d.background(core)) {
			core, found = i, true
		}
	}
	return core, found
}

// idlest returns the idlest core with at least n free CPUs. Among equals it prefers one that is
// free as a whole, and then the lowest.
func (d *coreSetPlan) idlest(free cpuset.Set, n int) (core int, found bool) {
	for i, threads := range d.cores {
		if threads.Intersection(free).Len() < n {
			continue
		}
		better := !found || d.background(i) < d.background(core) ||
			d.background(i) == d.background(core) && threads.IsSubsetOf(free) && !d.cores[core].IsSubsetOf(free)
		if better {
			core, found = i, true
		}
	}
	return core, found
}
