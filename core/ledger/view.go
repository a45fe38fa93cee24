package ledger

import "pinfold.dev/pinfold/core/topology"

// Machine returns the machine whose CPUs the books account for.
func (b *Books) Machine() *topology.Machine { return b.index.Machine() }

// Claims returns all claims in the order of their IDs, including those that lose.
func (b *Books) Claims() []Claim {
	claims := make([]Claim, len(b.entries))
	for i, e := range b.entries {
		claims[i] = e.claim
	}
	return claims
}

// Conflicts returns the claims that lose, in the order of their IDs. Such a pod has none of the CPUs or
// NUMA nodes that it claims, and runs in the shared CPUs.
func (b *Books) Conflicts() (lost []Claim) {
	for _, e := range b.entries {
		if e.lost {
			lost = append(lost, e.claim)
		}
	}
	return lost
}
