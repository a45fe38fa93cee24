package nodeplan

import (
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
)

// improve moves sets towards idle CPUs, at most tuning.Step cores of each.
func (d *division) improve(tuning Tuning) {
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
func (d *division) giveBack(b *burster, tuning Tuning) bool {
	extra := b.set.Len() - b.need
	core, found := d.extremeCore(b.set, func(load, best int) bool { return load > best })
	if extra <= 0 || !found || d.meanLoad(b.set, core) < int(tuning.BusyAbove) {
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

// exchange gives a resident the idlest core that nobody has for the busiest of its
// own, when that is worth it.
func (d *division) exchange(b *burster, tuning Tuning) bool {
	free := b.region.Difference(d.held())
	from, ok := d.extremeCore(b.set, func(load, best int) bool { return load > best })
	if !ok {
		return false
	}
	given := d.cores[from].Intersection(b.set)
	to, ok := d.extremeCore(d.roomy(free, given.Len()), func(load, best int) bool { return load < best })
	if !ok || d.meanLoad(b.set, from)-d.meanLoad(free, to) < int(tuning.Margin) {
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
func (d *division) spread(b *burster, tuning Tuning) bool {
	free := b.region.Difference(d.held())
	core, ok := d.extremeCore(free, func(load, best int) bool { return load < best })
	if !ok || d.meanLoad(free, core) > int(tuning.IdleBelow) {
		return false
	}
	added := d.cores[core].Intersection(free)
	if tuning.MaxSpread > 0 && b.set.Len()+added.Len() > tuning.MaxSpread*b.limit {
		return false
	}
	b.set = b.set.Union(added)
	return true
}

// roomy are the CPUs of those cores that have at least n of them.
func (d *division) roomy(cpus cpuset.Set, n int) (roomy cpuset.Set) {
	for _, core := range d.cores {
		if part := core.Intersection(cpus); part.Len() >= n {
			roomy = roomy.Union(part)
		}
	}
	return roomy
}

// extremeCore returns the core of the CPUs whose part of them has the most extreme
// load; of equal ones a core that lies in them as a whole, and then the lowest.
func (d *division) extremeCore(cpus cpuset.Set, better func(load, best int) bool) (core int, found bool) {
	best, whole := 0, false
	for i, threads := range d.cores {
		if !threads.Intersects(cpus) {
			continue
		}
		load, all := d.meanLoad(cpus, i), threads.IsSubsetOf(cpus)
		if !found || better(load, best) || load == best && all && !whole {
			core, best, whole, found = i, load, all, true
		}
	}
	return core, found
}

// meanLoad is the load of those of the CPUs that are of the core, in thousandths.
func (d *division) meanLoad(cpus cpuset.Set, core int) int {
	sum := 0
	part := d.cores[core].Intersection(cpus)
	for c := range part.All() {
		sum += int(d.load[c])
	}
	return sum / part.Len()
}
