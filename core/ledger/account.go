package ledger

import (
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
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
	// confinements are the distinct confinements, in the order of their CPUs.
	confinements []confinement
	// digested caches what decisions derive from the account. Every change replaces it.
	digested *digest
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
	at, ok := slices.BinarySearchFunc(a.confinements, c, func(x, y confinement) int { return x.cpus.Compare(y.cpus) })
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

// serve returns the flow of all confined requests into the CPUs that are still shared without
// `taken`. It is a maximum unless it exhausts the budget.
func (a *account) serve(taken cpuset.Set, budget *placement.Budget) *flow {
	shared := a.Shared().Difference(taken)
	capacity := make([]MilliCPU, len(a.nodes))
	for n := range a.nodes {
		capacity[n] = wholeCPUs(a.nodes[n].Intersection(shared).Len())
	}
	f := newFlow(capacity, len(a.confinements)+1, budget)
	for i := range a.confinements {
		f.add(a.confinements[i].nodes, a.confinements[i].demand)
	}
	return f
}

// machineLimit returns how many CPUs rules 1 and 4 let a static pod take that also requests `more`
// of the shared CPUs.
func (a *account) machineLimit(more MilliCPU) int {
	byRequests := (a.unconfinedLeft() - more) / 1000
	byMinShared := a.Shared().Len() - a.config.MinShared
	return max(0, min(int(byRequests), byMinShared))
}

// confinementLimit returns how many CPUs of a confinement a static pod may take under rule 3 and
// under rule 2 for its nodes alone. `short` is the shortfall at present.
func (a *account) confinementLimit(c *confinement, short MilliCPU) int {
	shared := a.Shared().Intersection(c.cpus).Len()
	return max(0, min(shared-1, a.unionLimit(c.cpus, short)))
}

// unionLimit returns how many CPUs of a union of NUMA nodes a static pod may take under rule 2
// without increasing the shortfall above `short`.
func (a *account) unionLimit(union cpuset.Set, short MilliCPU) int {
	left := wholeCPUs(a.Shared().Intersection(union).Len()) - a.demandWithin(union)
	return int((left + short) / 1000)
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
