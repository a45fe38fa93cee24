package ledger

import (
	"pinfold.dev/pinfold/core/cpuset"
)

// unconfinedLeft returns what rule 1 leaves for further requests. It is negative if the shared CPUs
// are already too few.
func (b *Books) unconfinedLeft() MilliCPU {
	return wholeCPUs(b.Shared().Len()) - b.SharedRequests()
}

// serve returns the flow of all confined requests into the CPUs that are still shared without
// `taken`.
func (b *Books) serve(taken cpuset.Set) *flow {
	shared := b.Shared().Difference(taken)
	capacity := make([]MilliCPU, len(b.nodes))
	for n := range b.nodes {
		capacity[n] = wholeCPUs(b.nodes[n].Intersection(shared).Len())
	}
	f := newFlow(capacity, len(b.confinements)+1)
	for i := range b.confinements {
		f.add(b.confinements[i].nodes, b.confinements[i].demand)
	}
	return f
}

// machineLimit returns how many CPUs rules 1 and 4 let a static pod take that also requests `more`
// of the shared CPUs.
func (b *Books) machineLimit(more MilliCPU) int {
	byRequests := (b.unconfinedLeft() - more) / 1000
	byMinShared := b.Shared().Len() - b.config.MinShared
	return max(0, min(int(byRequests), byMinShared))
}

// confinementLimit returns how many CPUs of a confinement a static pod may take under rule 3 and
// under rule 2 for its nodes alone. `short` is the shortfall at present.
func (b *Books) confinementLimit(c *confinement, short MilliCPU) int {
	shared := b.Shared().Intersection(c.cpus).Len()
	return max(0, min(shared-c.limit, b.unionLimit(c.cpus, short)))
}

// unionLimit returns how many CPUs of a union of NUMA nodes a static pod may take under rule 2
// without increasing the shortfall above `short`.
func (b *Books) unionLimit(union cpuset.Set, short MilliCPU) int {
	left := wholeCPUs(b.Shared().Intersection(union).Len()) - b.demandWithin(union)
	return int((left + short) / 1000)
}

// demandWithin returns the sum of the requests that are confined within the union.
func (b *Books) demandWithin(union cpuset.Set) (sum MilliCPU) {
	for i := range b.confinements {
		if b.confinements[i].cpus.IsSubsetOf(union) {
			sum += b.confinements[i].demand
		}
	}
	return sum
}
