package nodeplan

import (
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
)

// improve moves sets towards idle CPUs, at most tuning.Step cores of each.
func (d *coreSetPlan) improve(tuning Tuning) {
	moved := make([]int, len(d.residents))
	for i, b := range d.residents {
		for moved[i] < tuning.Step && (d.giveBack(b, tuning) || d.exchange(b, tuning)) {
			moved[i]++
		}
	}
	// Idle CPUs are handed out in turns, to who has been given least first.
	order := make([]int, len(d.residents))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return (d.residents[i].set.Len() - d.residents[i].need) - (d.residents[j].set.Len() - d.residents[j].need)
	})
	for range tuning.Step {
		for _, i := range order {
			if moved[i] < tuning.Step && d.spread(d.residents[i], tuning) {
				moved[i]++
			}
		}
	}
}

// giveBack takes the busiest core out of a set when it is busy and not needed.
func (d *coreSetPlan) giveBack(b *burster, tuning Tuning) bool {
	extra := b.set.Len() - b.need
	core, ok := d.busiest(b.set)
	if extra <= 0 || !ok || d.background(core) < tuning.BusyAbove {
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

// exchange gives a resident CPUs of the idlest core that nobody has for those of the busiest of its
// own, when that is worth it.
func (d *coreSetPlan) exchange(b *burster, tuning Tuning) bool {
	from, ok := d.busiest(b.set)
	if !ok {
		return false
	}
	given := d.cores[from].Intersection(b.set)
	free := b.region.Difference(d.held())
	to, ok := d.idlest(free, given.Len())
	if !ok || d.background(from)-d.background(to) < tuning.Margin {
		return false
	}
	b.set = b.set.Difference(given)
	for c := range d.cores[to].Intersection(free).All() {
		if given.Len() > 0 {
			b.set.Add(c)
			given.Remove(given.First())
		}
	}
	return true
}

// spread gives a resident one more core that is idle and that nobody has.
func (d *coreSetPlan) spread(b *burster, tuning Tuning) bool {
	free := b.region.Difference(d.held())
	core, ok := d.idlest(free, 1)
	if !ok || d.background(core) > tuning.IdleBelow {
		return false
	}
	added := d.cores[core].Intersection(free)
	if tuning.MaxSpread > 0 && b.set.Len()+added.Len() > tuning.MaxSpread*b.limit {
		return false
	}
	b.set = b.set.Union(added)
	return true
}

// background is the mean load of all threads of a core: one whose sibling works is slower. All of
// improve uses this measure, which does not depend on who has which thread. Under a load that stays
// the same, sets therefore come to rest: a core that is spread to is none that is given back, and
// every exchange makes a set idler.
func (d *coreSetPlan) background(core int) (sum ledger.MilliCPU) {
	for c := range d.cores[core].All() {
		sum += d.load[c]
	}
	return sum / ledger.MilliCPU(d.cores[core].Len())
}

// busiest returns the busiest core of which the set has a CPU, the lowest of equals.
func (d *coreSetPlan) busiest(set cpuset.Set) (core int, found bool) {
	for i, threads := range d.cores {
		if threads.Intersects(set) && (!found || d.background(i) > d.background(core)) {
			core, found = i, true
		}
	}
	return core, found
}

// idlest returns the idlest core of which at least n CPUs are free; of equals one that is free as a
// whole, and then the lowest.
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
