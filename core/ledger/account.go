package ledger

import (
	"cmp"
	"math/big"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// account is what the claims that were granted take of a node. The rules and decisions depend on it
// alone, not on whose claims these are.
//
// Invariants: exclusive is the union of the static CPUs of the entries that do not lose. These are
// disjoint and include offline CPUs. claimed is the union over all entries, and equals exclusive if
// there is no conflict.
type account struct {
	*site
	exclusive cpuset.Set
	claimed   cpuset.Set
	// demand is the sum of all requests of the shared CPUs, confined or not, without
	// Config.Reserved.
	demand MilliCPU
	// confinements are the distinct confinements, those of the fewest NUMA nodes first.
	confinements []confinement
	// available is what the amounts of the confinements leave of each NUMA node's shared CPUs. short
	// are the nodes that cannot serve what is confined within them. See split.
	available []MilliCPU
	short     []bool
}

// Exclusive returns the online CPUs that belong to one pod each.
func (a *account) Exclusive() cpuset.Set { return a.exclusive.Intersection(a.online) }

// Shared returns the online CPUs that are neither exclusive nor isolated.
func (a *account) Shared() cpuset.Set { return a.balanced.Difference(a.exclusive) }

// free returns the CPUs that a static container may take, subject to the rules about amounts: the
// shared CPUs that are not reserved.
func (a *account) free() cpuset.Set { return a.Shared().Difference(a.config.ReservedCPUs) }

// SharedRequests returns the sum of all requests of the shared CPUs, including Config.Reserved.
func (a *account) SharedRequests() MilliCPU { return a.demand + a.config.Reserved }

// confine adds a confinement.
func (a *account) confine(c confinement) {
	at, ok := slices.BinarySearchFunc(a.confinements, c, func(x, y confinement) int {
		return cmp.Or(cmp.Compare(len(x.nodes), len(y.nodes)), x.cpus.Compare(y.cpus))
	})
	if !ok {
		a.confinements = slices.Insert(a.confinements, at, c)
		return
	}
	a.confinements[at].demand += c.demand
}

// unconfinedLeft returns what rule 1 leaves for further requests. It is negative if the shared CPUs
// are already too few.
func (a *account) unconfinedLeft() MilliCPU {
	return wholeCPUs(a.Shared().Len()) - a.SharedRequests()
}

// machineLimit returns how many CPUs rules 1 and 4 let a static pod take that also requests `more`
// of the shared CPUs.
func (a *account) machineLimit(more MilliCPU) int {
	byRequests := (a.unconfinedLeft() - more) / 1000
	byMinShared := a.Shared().Len() - a.config.MinShared
	return max(0, min(int(byRequests), byMinShared))
}

// limits returns the CPUs of which a static pod may take some, and how many.
func (a *account) limits(ask *Ask, budget *placement.Budget) (free cpuset.Set, limits []placement.Limit) {
	if free = a.free(); !ask.Within.IsEmpty() {
		free = free.Intersection(ask.Within)
	}
	var cores []topology.Group[topology.CoreID]
	if ask.FullCores == placement.FullCoresRequired && len(a.confinements) > 0 {
		cores = a.index.Machine().Cores()
	}
	for n, cpus := range a.nodes {
		most := int(a.available[n] / 1000)
		if cores != nil {
			budget.Spend(2 * len(cores))
			most = wholeCores(cores, free.Intersection(cpus), most)
		}
		switch {
		case most == 0:
			free = free.Difference(cpus)
		case most < free.Intersection(cpus).Len():
			limits = append(limits, placement.Limit{NUMANodes: a.nodeIDs[n : n+1], CPUs: most})
		}
	}
	if most := a.machineLimit(ask.SharedRequest.bounded()); most < free.Len() {
		limits = append(limits, placement.Limit{CPUs: most})
	}
	return free, limits
}

// wholeCores returns the largest number, at most `most`, that whole cores of free CPUs add up to.
// Otherwise a search would try sets of NUMA nodes of which none has enough.
func wholeCores(cores []topology.Group[topology.CoreID], free cpuset.Set, most int) int {
	sums := big.NewInt(1) // bit n: n CPUs
	for _, core := range cores {
		if core.CPUs.IsSubsetOf(free) {
			sums.Or(sums, new(big.Int).Lsh(sums, uint(core.CPUs.Len())))
		}
	}
	for sums.Bit(most) == 0 {
		most--
	}
	return most
}

// demandWithin returns the sum of the requests that are confined within the union.
func (a *account) demandWithin(union cpuset.Set) (sum MilliCPU) {
	for i := range a.confinements {
		if a.confinements[i].cpus.IsSubsetOf(union) {
			sum += a.confinements[i].demand
		}
	}
	return sum
}
