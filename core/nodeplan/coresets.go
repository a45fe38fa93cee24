package nodeplan

import (
	"cmp"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
)

// burster is a static-burst container while core sets are planned.
type burster struct {
	ref   Ref
	limit int
	// init and sidecar say what it is when it is no main container.
	init, sidecar bool
	rank          int64
	// region are the CPUs that it may use, never empty. need is how many of them its set must have.
	region cpuset.Set
	need   int
	// set is the core set: first what is left of the one before, in the end the one that is
	// planned. Invariant: a subset of region.
	set cpuset.Set
}

// coreSetPlan is the shared CPUs among static-burst containers.
type coreSetPlan struct {
	bursters []*burster // the senior pods first
	// residents are the bursters that are no init containers.
	residents []*burster
	cores     []cpuset.Set                    // by core: its online threads
	coreOf    [cpuset.MaxCPUs]int             // index into cores
	load      [cpuset.MaxCPUs]ledger.MilliCPU // of each CPU, without what residents use
}

// planCoreSets plans the core sets of all static-burst containers that have not ended.
func (h *cpuPlan) planCoreSets() CoreSets {
	d := h.newCoreSetPlan()
	d.assignNeeds()
	d.assignInits()
	if h.Usage.Sequence != h.Previous.Sequence {
		d.improve(h.Tuning)
	}
	for i, b := range d.residents {
		for _, other := range d.residents[:i] {
			if b.set.Intersects(other.set) {
				h.report(Finding{Kind: CoreSetsOverlap, Pod: b.ref.Pod, Container: b.ref.Container})
				break
			}
		}
	}
	for _, b := range d.bursters {
		h.sets[b.ref] = b.set
	}
	return CoreSets{Sequence: h.Usage.Sequence, Sets: h.sets}
}

func (h *cpuPlan) newCoreSetPlan() *coreSetPlan {
	m := h.Index.Machine()
	d := &coreSetPlan{}
	for i, core := range m.Cores() {
		d.cores = append(d.cores, core.CPUs)
		for c := range core.CPUs.All() {
			d.coreOf[c] = i
		}
	}
	for i := range h.Pods {
		p := &h.Pods[i]
		for j := range p.Containers {
			if b := h.burster(p, &p.Containers[j]); b != nil {
				d.bursters = append(d.bursters, b)
			}
		}
	}
	slices.SortStableFunc(d.bursters, func(a, b *burster) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.ref.Pod, b.ref.Pod))
	})
	for _, b := range d.bursters {
		if !b.init {
			d.residents = append(d.residents, b)
		}
	}
	d.setLoad(h.State)
	return d
}

// burster returns nil for containers that have no core set.
func (h *cpuPlan) burster(p *Pod, c *Container) *burster {
	claim := h.claimOf(p, c)
	if claim == nil || claim.Policy != placement.StaticBurst || c.Phase == Ended {
		return nil
	}
	b := &burster{ref: Ref{p.ID, c.Name}, limit: claim.Limit, rank: p.Claim.Rank,
		init: c.Role == ledger.RoleInit, sidecar: c.Role == ledger.RoleSidecar}
	for _, id := range claim.NUMANodes {
		b.region = b.region.Union(h.Index.Machine().CPUsOfNUMA(id))
	}
	b.region = b.region.Intersection(h.books.Shared())
	if b.region.IsEmpty() {
		h.report(Finding{Kind: NoneInNodes, Pod: p.ID, Container: c.Name})
		return nil
	}
	b.need = min(max(b.limit, 1), b.region.Len())
	b.set = h.Previous.Sets[b.ref].Intersection(b.region)
	return b
}

// setLoad takes what the residents use off the load of the CPUs that they are on. Where it is not
// known on which, the busiest of their set are taken: threads that work do not spread themselves
// evenly.
func (d *coreSetPlan) setLoad(s *State) {
	for c, busy := range s.Usage.Busy {
		if c.Valid() {
			d.load[c] = busy
		}
	}
	used := map[Ref]*Container{}
	for i := range s.Pods {
		for j := range s.Pods[i].Containers {
			used[Ref{s.Pods[i].ID, s.Pods[i].Containers[j].Name}] = &s.Pods[i].Containers[j]
		}
	}
	for _, b := range d.bursters {
		container := used[b.ref]
		if container.UsedOn != nil {
			for c, amount := range container.UsedOn {
				if c.Valid() {
					d.load[c] = max(0, d.load[c]-amount)
				}
			}
			continue
		}
		d.discount(s.Previous.Sets[b.ref], container.Used)
	}
}

// discount takes an amount off the load of CPUs, the busiest first.
func (d *coreSetPlan) discount(set cpuset.Set, amount ledger.MilliCPU) {
	cpus := slices.Collect(set.All())
	slices.SortStableFunc(cpus, func(a, b cpuset.CPU) int { return int(d.load[b] - d.load[a]) })
	for _, c := range cpus {
		taken := min(d.load[c], max(0, amount))
		d.load[c] -= taken
		amount -= taken
	}
}

// heldBeside counts the residents beside b whose set has the CPU.
func (d *coreSetPlan) heldBeside(b *burster, c cpuset.CPU) (n int) {
	for _, other := range d.residents {
		if other != b && other.set.Contains(c) {
			n++
		}
	}
	return n
}

// held is the union of the sets of all bursters.
func (d *coreSetPlan) held() (all cpuset.Set) {
	for _, b := range d.bursters {
		all = all.Union(b.set)
	}
	return all
}

// coreLoad is how busy a core is for one who takes the CPUs of it: the mean of its threads, to a
// tenth of a CPU so that noise does not choose. A thread that somebody else's set has counts as
// busy.
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
