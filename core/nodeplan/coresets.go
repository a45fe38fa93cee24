package nodeplan

import (
	"cmp"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
)

// burster is a static-burst container whose core set is planned.
type burster struct {
	ref   Ref
	limit int
	rank  int64
	*Container
	// region are the shared CPUs of its NUMA nodes, never empty. need is the number of them that
	// its core set must have.
	region cpuset.Set
	need   int
	// set is the core set, at first what is left of the previous one. Invariant: a subset of
	// region.
	set cpuset.Set
}

// coreSetPlan plans the core sets of all static-burst containers.
type coreSetPlan struct {
	bursters []*burster // in the order of their pods' ranks
	// longRunning are the bursters that are not ordinary init containers.
	longRunning []*burster
	cores       []cpuset.Set        // by core: its online threads
	coreOf      [cpuset.MaxCPUs]int // index into cores
	load        cpuLoad             // without the usage of bursters
}

// cpuLoad is how busy each CPU is.
type cpuLoad [cpuset.MaxCPUs]ledger.MilliCPU

// mostCoreSets is how many containers have core sets: those that request most. Others use all shared
// CPUs of their NUMA nodes. A tenant chooses how many there are, which request nothing, and beyond a
// node's CPUs their sets overlap anyway.
const mostCoreSets = 256

// planCoreSets plans the core sets of all static-burst containers that have not ended, starting
// from the previous sets. What is required depends on every input but load; only once per sample of
// the usage, sets follow the load.
func (plan *cpuPlan) planCoreSets() CoreSets {
	d := plan.newCoreSetPlan()
	d.assignNeeds()
	d.assignInits()
	if plan.Usage.Sequence != plan.Previous.Sequence {
		d.improve()
	}
	for i, b := range d.longRunning {
		for _, other := range d.longRunning[:i] {
			if b.set.Intersects(other.set) {
				plan.report(Finding{Kind: CoreSetsOverlap, Pod: b.ref.Pod, Container: b.ref.Container})
				break
			}
		}
	}
	for _, b := range d.bursters {
		plan.sets[b.ref] = b.set
	}
	return CoreSets{Sequence: plan.Usage.Sequence, Sets: plan.sets}
}

func (plan *cpuPlan) newCoreSetPlan() *coreSetPlan {
	m := plan.Index.Machine()
	d := &coreSetPlan{}
	for i, core := range m.Cores() {
		d.cores = append(d.cores, core.CPUs)
		for c := range core.CPUs.All() {
			d.coreOf[c] = i
		}
	}
	for i := range plan.Pods {
		p := &plan.Pods[i]
		for j := range p.Containers {
			if b := plan.burster(p, &p.Containers[j]); b != nil {
				d.bursters = append(d.bursters, b)
			}
		}
	}
	if len(d.bursters) > mostCoreSets {
		slices.SortStableFunc(d.bursters, func(a, b *burster) int { return cmp.Compare(b.Request, a.Request) })
		for _, b := range d.bursters[mostCoreSets:] {
			plan.sets[b.ref] = b.region
		}
		d.bursters = d.bursters[:mostCoreSets]
	}
	slices.SortStableFunc(d.bursters, func(a, b *burster) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.ref.Pod, b.ref.Pod))
	})
	for _, b := range d.bursters {
		if b.Role != ledger.RoleInit {
			d.longRunning = append(d.longRunning, b)
		}
	}
	d.setLoad(plan.State)
	return d
}

// burster returns nil for a container without a core set.
func (plan *cpuPlan) burster(p *Pod, c *Container) *burster {
	claim := plan.claimOf(p, c)
	if claim == nil || claim.Policy != placement.StaticBurst || c.Phase == Ended {
		return nil
	}
	b := &burster{ref: Ref{p.ID, c.Name}, limit: claim.Limit, rank: p.Claim.Rank, Container: c}
	b.region = plan.Index.Machine().CPUsOfNUMA(claim.NUMANodes...).Intersection(plan.books.Shared())
	if b.region.IsEmpty() {
		plan.report(Finding{Kind: NoneInNodes, Pod: p.ID, Container: c.Name})
		return nil
	}
	b.need = min(max(b.limit, 1), b.region.Len())
	b.set = plan.Previous.Sets[b.ref].Intersection(b.region)
	return b
}

// setLoad subtracts the usage of static-burst containers from the load of the CPUs that they use. On
// which of its CPUs a container has run is not known, so the load is the smaller one of two: it has used
// all alike, or first the busiest. A set moves only if that pays either way; else it would follow its
// own threads from core to core.
func (d *coreSetPlan) setLoad(s *State) {
	for c, busy := range s.Usage.Busy {
		if c.Valid() {
			d.load[c] = busy
		}
	}
	alike := d.load
	for _, b := range d.bursters {
		set := s.Previous.Sets[b.ref]
		alike.discountAlike(set, b.Used)
		d.load.discountBusiest(set, b.Used)
	}
	for c := range d.load {
		d.load[c] = min(d.load[c], alike[c])
	}
}

// discountBusiest subtracts an amount from the load of CPUs, the busiest first.
func (l *cpuLoad) discountBusiest(set cpuset.Set, amount ledger.MilliCPU) {
	for _, c := range sortedBy(set, func(c cpuset.CPU) sortKey { return sortKey{-int(l[c])} }) {
		taken := min(l[c], max(0, amount))
		l[c] -= taken
		amount -= taken
	}
}

// discountAlike subtracts an amount from the load of CPUs, the same from each that has as much.
func (l *cpuLoad) discountAlike(set cpuset.Set, amount ledger.MilliCPU) {
	left := ledger.MilliCPU(set.Len())
	for _, c := range sortedBy(set, func(c cpuset.CPU) sortKey { return sortKey{int(l[c])} }) {
		taken := min(l[c], max(0, amount)/left)
		l[c] -= taken
		amount -= taken
		left--
	}
}

// held returns the union of all core sets.
func (d *coreSetPlan) held() (all cpuset.Set) {
	for _, b := range d.bursters {
		all = all.Union(b.set)
	}
	return all
}

// coreLoad returns the mean load of the threads of a core, in steps of a tenth of a CPU so that
// noise does not matter. CPUs in taken count as busy.
func (d *coreSetPlan) coreLoad(core int, taken cpuset.Set) ledger.MilliCPU {
	var sum ledger.MilliCPU
	for c := range d.cores[core].All() {
		if taken.Contains(c) {
			sum += 1000
		} else {
			sum += min(1000, max(0, d.load[c]))
		}
	}
	const step = 100
	return sum / ledger.MilliCPU(d.cores[core].Len()) / step * step
}
