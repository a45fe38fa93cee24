package ledger

import (
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
)

// Amounts sums up what claims take of a node whose machine is not known: CPUs that are
// exclusive, and what is requested of the others. Of claims that collide the senior one
// has its CPUs, as in [Books].
func Amounts(claims []Claim) (exclusive cpuset.Set, requests MilliCPU) {
	claims = slices.Clone(claims)
	slices.SortFunc(claims, func(a, b Claim) int { return compareSeniority(a.Rank, a.ID, b.Rank, b.ID) })
	for _, claim := range claims {
		var own cpuset.Set
		var all, confined Phases[MilliCPU]
		for i := range claim.Containers {
			c := &claim.Containers[i]
			request := c.Request.bounded()
			all.Add(c.Role, request)
			if c.Policy == placement.Static {
				own = own.Union(c.CPUs)
			} else {
				confined.Add(c.Role, request)
			}
		}
		requests += claim.SharedRequest.bounded()
		if own.Intersects(exclusive) {
			requests += all.Largest()
			continue
		}
		exclusive = exclusive.Union(own)
		requests += confined.Largest()
	}
	return exclusive, requests
}
