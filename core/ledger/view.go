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

// Conflicts returns the pods that lost their claim, most senior first. The caller must not modify
// the result.
func (b *Books) Conflicts() []Conflict { return b.conflicts }
