package ledger

import (
	"cmp"
	"slices"

	"pinfold.dev/pinfold/core/placement"
)

// Books account for the CPUs of one node. Several goroutines may read them at once, including with
// [Books.Decide], but not while they are changed.
type Books struct {
	account
	entries []*entry // by ID
}

// New returns the books of the index's machine with the given claims.
func New(index *placement.Index, config Config, claims ...Claim) *Books {
	b := &Books{account: account{site: newSite(index, config)}, entries: make([]*entry, 0, len(claims))}
	all := make([]entry, len(claims))
	collide := false
	for i, c := range claims {
		collide = b.insert(&all[i], c) || collide
	}
	if collide { // once, because any number may
		b.settleAll()
	}
	b.split(placement.ShareOf(config.Decisions))
	return b
}

// Add adds a claim. It replaces an earlier claim of the same pod.
func (b *Books) Add(claim Claim) {
	collides := b.insert(new(entry), claim)
	if collides {
		b.settleAll()
	}
	if collides || len(claim.Containers) > 0 { // else all amounts stay the same
		b.split(placement.ShareOf(b.config.Decisions))
	}
}

// DecidesAs reports whether both books give the same answer to every question: the machine and the
// configuration are the same, and so is the sum of what was granted. The pods may differ, and so may the
// number of decisions.
func (b *Books) DecidesAs(other *Books) bool {
	config := other.config
	config.Decisions = b.config.Decisions
	return b.index == other.index && b.config == config && b.exclusive == other.exclusive && b.demand == other.demand &&
		slices.EqualFunc(b.confinements, other.confinements, func(x, y confinement) bool {
			return x.cpus == y.cpus && x.demand == y.demand // the rest follows from these
		})
}

// insert adds an entry for a claim. It reports whether all claims must be settled again. Otherwise the
// claim conflicts with no other, so the order does not matter, and it is settled.
func (b *Books) insert(e *entry, claim Claim) (collides bool) {
	e.fill(b.site, claim)
	at, replaces := b.find(claim.ID)
	var before Claim
	if replaces {
		before, b.entries[at] = b.entries[at].claim, e
	} else {
		b.entries = slices.Insert(b.entries, at, e)
	}
	if len(before.Containers) > 0 || e.static.Intersects(b.claimed) {
		return true
	}
	b.demand -= before.SharedRequest.bounded()
	b.grantOrLose(e)
	return false
}

func (b *Books) find(id PodID) (at int, ok bool) {
	return slices.BinarySearchFunc(b.entries, id, func(e *entry, id PodID) int { return cmp.Compare(e.claim.ID, id) })
}

// settleAll settles all claims again, in the order of their seniority.
func (b *Books) settleAll() {
	b.account = account{site: b.site}
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
	if e.lost = e.invalid || e.static.Intersects(b.exclusive); e.lost {
		b.demand += e.ownRequest
		return
	}
	b.exclusive = b.exclusive.Union(e.static)
	b.demand += e.offlineRequest
	for _, c := range e.confined {
		b.demand += c.demand
		b.confine(c)
	}
}
