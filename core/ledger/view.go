package ledger

import (
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// Portion is the exclusive CPUs of one container, whether or not they are online.
type Portion struct {
	Pod       PodID
	Container string
	CPUs      cpuset.Set
}

// Portions returns the exclusive CPUs of all containers, in the order of their pods' IDs. They are
// disjoint: CPUs that containers of one pod use in turn are in the portion of the container that
// has them longest.
func (b *Books) Portions() (all []Portion) {
	for _, e := range b.entries {
		if !e.lost {
			all = append(all, e.portions()...)
		}
	}
	return all
}

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
