package ledger

import (
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
)

// Amounts sums claims on a node whose machine is unknown. It returns the exclusive CPUs, and the
// requests of the other CPUs. If claims collide, the senior claim has the CPUs, as in Books.
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
