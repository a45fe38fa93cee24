package ledger

import "pinfold.dev/pinfold/core/cpuset"

// Exclusive returns the online CPUs that belong to one pod each.
func (b *Books) Exclusive() cpuset.Set { return b.exclusive.Intersection(b.online) }

// Shared returns the online CPUs that are not exclusive.
func (b *Books) Shared() cpuset.Set { return b.online.Difference(b.exclusive) }

// Free returns the CPUs that a static container may take, subject to the rules about amounts: the
// shared CPUs that are not reserved.
func (b *Books) Free() cpuset.Set { return b.Shared().Difference(b.config.ReservedCPUs) }

// SharedRequests returns the sum of all requests of the shared CPUs, including Config.Reserved.
func (b *Books) SharedRequests() MilliCPU { return b.demand + b.config.Reserved }

// Owner returns the container that has a CPU exclusively, whether or not the CPU is online. ok is
// false if the CPU is not exclusive. If containers of one pod use the CPU in turn, Owner returns
// the one that has it longest.
func (b *Books) Owner(cpu cpuset.CPU) (pod PodID, container string, ok bool) {
	if !b.exclusive.Contains(cpu) {
		return "", "", false
	}
	e, p := b.holding(cpu, func(*entry) bool { return true })
	return e.claim.ID, p.container, true
}

// holding returns the settled entry that holds an exclusive CPU, and the container's part of it.
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
	panic("ledger: an exclusive CPU has no owner")
}

func (b *Books) loses(e *entry) bool {
	for i := range b.conflicts {
		if b.conflicts[i].ID == e.claim.ID {
			return true
		}
	}
	return false
}

// Portion is the exclusive CPUs of one container, whether or not they are online.
type Portion struct {
	Pod       PodID
	Container string
	CPUs      cpuset.Set
}

// Portions returns the exclusive CPUs of all containers, in the order of their pods' IDs. They are
// disjoint: CPUs that containers of one pod use in turn are in the portion of the container that
// [Books.Owner] returns.
func (b *Books) Portions() (all []Portion) {
	for _, e := range b.entries {
		if e.static.IsEmpty() || b.loses(e) {
			continue
		}
		for _, p := range e.portions() {
			if !p.cpus.IsEmpty() {
				all = append(all, Portion{e.claim.ID, p.container, p.cpus})
			}
		}
	}
	return all
}

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
