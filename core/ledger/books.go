package ledger

import (
	"cmp"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
)

// Books account for the CPUs of one node. Several goroutines may read them at once, including with
// [Books.Decide], but not while they are changed.
type Books struct {
	account
	entries   []*entry   // by ID
	conflicts []Conflict // the entries that lose, by (Rank, ID)
}

// New returns the books of the index's machine with the given claims.
func New(index *placement.Index, config Config, claims ...Claim) *Books {
	b := &Books{account: account{site: newSite(index, config)}, entries: make([]*entry, 0, len(claims))}
	all := make([]entry, len(claims))
	for i, c := range claims {
		b.add(&all[i], c)
	}
	b.digested = &digest{}
	return b
}

// Add adds a claim. It replaces an earlier claim of the same pod.
func (b *Books) Add(claim Claim) {
	b.add(new(entry), claim)
	b.digested = &digest{}
}

// DecidesAs reports whether both books give the same answer to every question: the machine and the
// configuration are the same, and so is the sum of what was granted. The pods may differ.
func (b *Books) DecidesAs(other *Books) bool {
	return b.index == other.index && b.config == other.config && b.exclusive == other.exclusive && b.demand == other.demand &&
		slices.EqualFunc(b.confinements, other.confinements, func(x, y confinement) bool {
			return x.cpus == y.cpus && x.demand == y.demand // nodes follow from cpus
		})
}

func (b *Books) add(e *entry, claim Claim) {
	e.fill(b.site, claim)
	at, replaces := b.find(claim.ID)
	switch {
	case replaces:
		b.entries[at] = e
		b.settleAll()
	case len(e.claim.Containers) > 0 && e.static.Intersects(b.claimed):
		b.entries = slices.Insert(b.entries, at, e)
		b.settleAll()
	default: // it conflicts with no other entry, so the order does not matter
		b.entries = slices.Insert(b.entries, at, e)
		b.grantOrLose(e)
	}
}

func (b *Books) find(id PodID) (at int, ok bool) {
	return slices.BinarySearchFunc(b.entries, id, func(e *entry, id PodID) int { return cmp.Compare(e.claim.ID, id) })
}

// settleAll settles all claims again, in the order of their seniority.
func (b *Books) settleAll() {
	b.conflicts, b.account = nil, account{site: b.site}
	order := slices.Clone(b.entries)
	slices.SortFunc(order, func(x, y *entry) int {
		return compareSeniority(x.claim.Rank, x.claim.ID, y.claim.Rank, y.claim.ID)
	})
	for _, e := range order {
		b.grantOrLose(e)
	}
}

// grantOrLose settles e: it grants everything that e claims, or nothing. Of the entries that claim
// the same CPUs, exactly the senior ones must have been settled.
func (b *Books) grantOrLose(e *entry) {
	b.demand += e.claim.SharedRequest.bounded()
	if len(e.claim.Containers) == 0 {
		return
	}
	b.claimed = b.claimed.Union(e.static)
	if len(e.problems) > 0 || e.static.Intersects(b.exclusive) {
		b.demand += e.ownRequest
		b.lose(e)
		return
	}
	b.exclusive = b.exclusive.Union(e.static)
	b.demand += e.offlineRequest
	for _, c := range e.confined {
		b.demand += c.demand
		b.confine(c)
	}
}

func (b *Books) lose(e *entry) {
	c := Conflict{ID: e.claim.ID, Rank: e.claim.Rank, Problems: slices.Concat(e.problems, b.heldProblems(e))}
	at, _ := slices.BinarySearchFunc(b.conflicts, c, func(x, y Conflict) int {
		return compareSeniority(x.Rank, x.ID, y.Rank, y.ID)
	})
	b.conflicts = slices.Insert(b.conflicts, at, c)
}

// heldProblems returns the holders of the CPUs that e claims. Of the entries that claim the same
// CPUs, exactly the senior ones must have been settled.
func (b *Books) heldProblems(e *entry) (found []Problem) {
	for i := range e.claim.Containers {
		c := &e.claim.Containers[i]
		if c.Policy != placement.Static {
			continue
		}
		left := c.CPUs.Intersection(b.exclusive)
		for !left.IsEmpty() {
			holder, has := b.holder(left.First(), e)
			found = append(found, Problem{Kind: CPUHeld, Container: c.Name, CPUs: has.CPUs.Intersection(left),
				Holder: holder.claim.ID, HolderContainer: has.Name})
			left = left.Difference(has.CPUs)
		}
	}
	return found
}

// holder returns the entry senior to e that holds an exclusive CPU, and the container's part of it.
func (b *Books) holder(cpu cpuset.CPU, e *entry) (*entry, ContainerClaim) {
	for _, other := range b.entries {
		if !other.static.Contains(cpu) || b.loses(other) ||
			compareSeniority(other.claim.Rank, other.claim.ID, e.claim.Rank, e.claim.ID) >= 0 {
			continue
		}
		for _, c := range other.claim.Portions() {
			if c.CPUs.Contains(cpu) {
				return other, c
			}
		}
	}
	panic("ledger: an exclusive CPU has no owner")
}
