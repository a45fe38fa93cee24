package ledger

import (
	"pinfold.dev/pinfold/core/cpuset"
)

// Exclusive returns the online CPUs that belong to one pod each.
func (b *Books) Exclusive() cpuset.Set { return b.exclusive.Intersection(b.online) }

// Shared returns the online CPUs that are not exclusive.
func (b *Books) Shared() cpuset.Set { return b.online.Difference(b.exclusive) }

// Free returns the CPUs that a static container may take, as far as rules about
// amounts permit: the shared ones that are not reserved.
func (b *Books) Free() cpuset.Set { return b.Shared().Difference(b.config.ReservedCPUs) }

// SharedRequests returns what is requested of the shared CPUs altogether,
// Config.Reserved included.
func (b *Books) SharedRequests() MilliCPU { return b.demand + b.config.Reserved }

// Owner returns the container that a CPU belongs to, online or not, and false for
// a CPU that is not exclusive. Where containers of one pod take turns on it, it is the one
// that has it for the longest time.
func (b *Books) Owner(cpu cpuset.CPU) (pod PodID, container string, ok bool) {
	if !b.exclusive.Contains(cpu) {
		return "", "", false
	}
	e, p := b.holding(cpu, func(*entry) bool { return true })
	return e.claim.ID, p.container, true
}

// holding returns who of the settled entries holds an exclusive CPU.
func (b *Books) holding(cpu cpuset.CPU, settled func(*entry) bool) (*entry, portion) {
	for _, e := range b.entries {
		if !e.static.Contains(cpu) || !settled(e) || b.loses(e) {
			continue
		}
		for _, p := range e.portions() {
			if p.cpus.Contains(cpu) {
				return e, p
			}
		}
	}
	panic("ledger: an exclusive CPU belongs to nobody")
}

func (b *Books) loses(e *entry) bool {
	for i := range b.conflicts {
		if b.conflicts[i].ID == e.claim.ID {
			return true
		}
	}
	return false
}

// Claims returns all claims by ID, those that lose included.
func (b *Books) Claims() []Claim {
	claims := make([]Claim, len(b.entries))
	for i, e := range b.entries {
		claims[i] = e.claim
	}
	return claims
}

// Conflicts returns the pods that lost what they claim, the most senior first.
// The result must not be changed.
func (b *Books) Conflicts() []Conflict { return b.conflicts }
