package ledger

import (
	"cmp"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
)

// Books are one node's account of its CPUs. They may be read by several goroutines at once,
// [Books.Decide] included, but not while they are changed.
//
// Invariants: exclusive is the union of the static CPUs of the entries that do not lose, which are
// disjoint, those that are offline included; wished is that of all entries. Without a conflict the
// two are equal.
type Books struct {
	*site
	entries   []*entry   // by ID
	conflicts []Conflict // the entries that lose, by (Rank, ID)

	exclusive cpuset.Set
	wished    cpuset.Set
	// demand is what is requested of the shared CPUs, confined or not, without Config.Reserved.
	demand MilliCPU
	// confinements are the distinct ones, in the order of their CPUs.
	confinements []confinement
	// digested is what decisions need of all this. Every change replaces it.
	digested *digest
}

// New returns the books of the index's machine with the given claims.
func New(index *placement.Index, config Config, claims ...Claim) *Books {
	b := &Books{site: newSite(index, config), entries: make([]*entry, 0, len(claims))}
	all := make([]entry, len(claims))
	for i, c := range claims {
		b.add(&all[i], c)
	}
	b.digested = &digest{}
	return b
}

// Clone returns an independent copy of b.
func (b *Books) Clone() *Books {
	clone := *b
	clone.entries = slices.Clone(b.entries)
	clone.conflicts = slices.Clone(b.conflicts)
	clone.confinements = slices.Clone(b.confinements)
	return &clone
}

// Add adds a claim. It replaces an earlier claim of the same pod.
func (b *Books) Add(claim Claim) {
	b.add(new(entry), claim)
	b.digested = &digest{}
}

func (b *Books) add(e *entry, claim Claim) {
	e.fill(b.site, claim)
	at, replaces := b.find(claim.ID)
	switch {
	case replaces:
		b.entries[at] = e
		b.settleAll()
	case len(e.claim.Containers) > 0 && e.static.Intersects(b.wished):
		b.entries = slices.Insert(b.entries, at, e)
		b.settleAll()
	default: // it has no part in anybody's conflict, so its place in the order is all one
		b.entries = slices.Insert(b.entries, at, e)
		b.grantOrLose(e)
	}
}

// Remove removes a pod's claim and reports whether there was one.
func (b *Books) Remove(id PodID) bool {
	at, ok := b.find(id)
	if !ok {
		return false
	}
	e := b.entries[at]
	b.entries = slices.Delete(b.entries, at, at+1)
	b.digested = &digest{}
	if len(b.conflicts) > 0 || len(e.confined) > 0 {
		b.settleAll()
		return true
	}
	b.exclusive = b.exclusive.Difference(e.static)
	b.wished = b.exclusive
	b.demand -= e.claim.SharedRequest.bounded() + e.stranded
	return true
}

func (b *Books) find(id PodID) (at int, ok bool) {
	return slices.BinarySearchFunc(b.entries, id, func(e *entry, id PodID) int { return cmp.Compare(e.claim.ID, id) })
}

// settleAll settles all claims anew, in the order of their seniority.
func (b *Books) settleAll() {
	b.conflicts, b.confinements = nil, nil
	b.exclusive, b.wished, b.demand = cpuset.Set{}, cpuset.Set{}, 0
	order := slices.Clone(b.entries)
	slices.SortFunc(order, func(x, y *entry) int {
		return compareSeniority(x.claim.Rank, x.claim.ID, y.claim.Rank, y.claim.ID)
	})
	for _, e := range order {
		b.grantOrLose(e)
	}
}

// grantOrLose lets e have what it claims, or lose it all. Of the entries that claim the same CPUs
// the senior ones must have been settled, and no others.
func (b *Books) grantOrLose(e *entry) {
	b.demand += e.claim.SharedRequest.bounded()
	if len(e.claim.Containers) == 0 {
		return
	}
	b.wished = b.wished.Union(e.static)
	if len(e.problems) > 0 || e.static.Intersects(b.exclusive) {
		b.demand += e.ownRequest
		b.lose(e)
		return
	}
	b.exclusive = b.exclusive.Union(e.static)
	b.demand += e.stranded
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

// heldProblems says who holds the CPUs that e claims. Of the entries that claim them only the
// senior ones are settled.
func (b *Books) heldProblems(e *entry) (found []Problem) {
	for i := range e.claim.Containers {
		c := &e.claim.Containers[i]
		if c.Policy != placement.Static {
			continue
		}
		left := c.CPUs.Intersection(b.exclusive)
		for !left.IsEmpty() {
			holder, p := b.holding(left.First(), func(other *entry) bool {
				return compareSeniority(other.claim.Rank, other.claim.ID, e.claim.Rank, e.claim.ID) < 0
			})
			found = append(found, Problem{Kind: CPUHeld, Container: c.Name, CPUs: p.cpus.Intersection(left),
				Holder: holder.claim.ID, HolderContainer: p.container})
			left = left.Difference(p.cpus)
		}
	}
	return found
}

func (b *Books) confine(c confinement) {
	at, ok := slices.BinarySearchFunc(b.confinements, c, func(x, y confinement) int { return x.cpus.Compare(y.cpus) })
	if !ok {
		b.confinements = slices.Insert(b.confinements, at, c)
		return
	}
	b.confinements[at].demand += c.demand
	b.confinements[at].limit = max(b.confinements[at].limit, c.limit)
}
