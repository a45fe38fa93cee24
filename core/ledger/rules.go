package ledger

import (
	"pinfold.dev/pinfold/core/cpuset"
)

// unconfinedLeft is what rule 1 leaves for further requests; negative when the shared CPUs are too
// few already.
func (b *Books) unconfinedLeft() MilliCPU {
	return wholeCPUs(b.Shared().Len()) - b.SharedRequests()
}

// serve routes the requests of all confinements to the CPUs that are shared once `taken` are no
// longer.
func (b *Books) serve(taken cpuset.Set) *flow {
	shared := b.Shared().Difference(taken)
	capacity := make([]MilliCPU, len(b.nodes))
	for n := range b.nodes {
		capacity[n] = wholeCPUs(b.nodes[n].cpus.Intersection(shared).Len())
	}
	f := newFlow(capacity, len(b.confinements)+1)
	for i := range b.confinements {
		f.add(b.confinements[i].nodes, b.confinements[i].demand)
	}
	return f
}

// machineLimit is how many CPUs rules 1 and 4 let a static pod take that requests `more` of the
// shared CPUs beside.
func (b *Books) machineLimit(more MilliCPU) int {
	byRequests := (b.unconfinedLeft() - more) / 1000
	byMinShared := b.Shared().Len() - b.config.MinShared
	return max(0, min(int(byRequests), byMinShared))
}

// confinementLimit is how many CPUs rule 3 for one confinement, and rule 2 for its nodes alone, let
// a static pod take out of it when `short` cannot be served as it is.
func (b *Books) confinementLimit(c *confinement, short MilliCPU) int {
	shared := b.Shared().Intersection(c.cpus).Len()
	return max(0, min(shared-c.limit, b.unionLimit(c.cpus, short)))
}

// unionLimit is how many CPUs rule 2 lets a static pod take out of a union of NUMA nodes without
// raising what cannot be served above `short`.
func (b *Books) unionLimit(union cpuset.Set, short MilliCPU) int {
	left := wholeCPUs(b.Shared().Intersection(union).Len()) - b.demandWithin(union)
	return int((left + short) / 1000)
}

// demandWithin is what is requested by what is confined within the CPUs.
func (b *Books) demandWithin(union cpuset.Set) (sum MilliCPU) {
	for i := range b.confinements {
		if b.confinements[i].cpus.IsSubsetOf(union) {
			sum += b.confinements[i].demand
		}
	}
	return sum
}
