package ledger

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/test/busy"
	"pinfold.dev/pinfold/test/need"
)

// contents is everything that books consist of.
type contents struct {
	Claims             []Claim
	Conflicts          []Claim
	Exclusive, Claimed cpuset.Set
	Demand             MilliCPU
	Confinements       []confinement
	Overflow           []Overflow
}

func contentsOf(b *Books) contents {
	return contents{b.Claims(), b.Conflicts(), b.exclusive, b.claimed, b.demand, b.confinements, b.Overflow()}
}

func diff(want, got *Books) string {
	return cmp.Diff(contentsOf(want), contentsOf(got), cmp.AllowUnexported(confinement{}), cmpopts.EquateEmpty(),
		cmpopts.EquateComparable(cpuset.Set{}))
}

// without returns books of all claims but one.
func without(b *Books, id PodID) *Books {
	return New(b.index, b.config, slices.DeleteFunc(b.Claims(), func(c Claim) bool { return c.ID == id })...)
}

// TestAnyOrderGivesTheSameBooks: after claims were added and replaced in any order, the books equal
// new books of the same claims in any order.
func TestAnyOrderGivesTheSameBooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, 8)
		b, left := New(w.index, w.config), map[PodID]Claim{}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			id := PodID(fmt.Sprintf("pod%d", rapid.IntRange(0, 5).Draw(t, "pod")))
			left[id] = drawClaim(t, w, id)
			b.Add(left[id])
		}
		var claims []Claim
		for _, c := range left {
			claims = append(claims, c)
		}
		slices.SortFunc(claims, func(a, b Claim) int { return compareSeniority(a.Rank, a.ID, b.Rank, b.ID) })
		if d := diff(New(w.index, w.config, claims...), b); d != "" {
			t.Fatalf("after a restart the books differ (-restart +before):\n%s", d)
		}
		claims = rapid.Permutation(claims).Draw(t, "order")
		if d := diff(New(w.index, w.config, claims...), b); d != "" {
			t.Fatalf("after a restart in another order the books differ (-restart +before):\n%s", d)
		}
	})
}

// TestBooksAgainstReference compares owners, conflicts and overflows with the reference.
func TestBooksAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, 12)
		b, ref := w.books(), w.reference()
		checkOwners(t, w, b, ref)
		for _, c := range b.Conflicts() {
			if !ref.lost[c.ID] {
				t.Fatalf("unexpected conflict: %v", c)
			}
		}
		if len(b.Conflicts()) != len(ref.lost) {
			t.Fatalf("conflicts %v, want those of pods %v", b.Conflicts(), ref.lost)
		}
		checkOverflow(t, b, ref.debts())
		checkOffline(t, w, b, ref)
	})
}

// granted returns the claims that do not lose.
func (b *Books) granted() []Claim {
	return slices.DeleteFunc(b.Claims(), func(c Claim) bool {
		at, _ := b.find(c.ID)
		return b.entries[at].lost
	})
}

// checkOffline checks that each offline CPU of a container is reported once.
func checkOffline(t *rapid.T, w *world, b *Books, ref *reference) {
	reported := 0
	for _, o := range b.Offline() {
		has := containerOf(b.Claims(), o.Pod, o.Container).CPUs
		if o.CPUs.IsEmpty() || o.CPUs.Union(o.Left) != has || !o.CPUs.IsSubsetOf(w.machine.Offline) || !o.Left.IsSubsetOf(w.machine.Online()) {
			t.Fatalf("%v, and the container has CPUs %s", o, has)
		}
		reported += o.CPUs.Len()
	}
	want := 0
	for _, claim := range b.Claims() {
		for _, one := range claim.Containers {
			if one.Policy == placement.Static && !ref.lost[claim.ID] {
				want += one.CPUs.Intersection(w.machine.Offline).Len()
			}
		}
	}
	if reported != want {
		t.Fatalf("%d CPUs are reported offline, %d are: %v", reported, want, b.Offline())
	}
}

func checkOwners(t *rapid.T, w *world, b *Books, ref *reference) {
	if online := w.machine.Balanced().Union(b.Exclusive()); b.Exclusive().Intersects(b.Shared()) || b.Exclusive().Union(b.Shared()) != online {
		t.Fatalf("exclusive %s + shared %s is not online %s", b.Exclusive(), b.Shared(), online)
	}
	if b.Exclusive().Intersects(w.config.ReservedCPUs) {
		t.Fatalf("exclusive %s with reserved %s", b.Exclusive(), w.config.ReservedCPUs)
	}
	owners := map[cpuset.CPU][2]string{}
	for _, claim := range b.granted() {
		for _, one := range claim.Portions() {
			for c := range one.CPUs.All() {
				if other, taken := owners[c]; taken {
					t.Fatalf("CPU %d is in two portions: that of %q and that of %s of %s", c, other, one.Name, claim.ID)
				}
				owners[c] = [2]string{string(claim.ID), one.Name}
			}
		}
	}
	for c := range cpuset.Range(0, cpuset.MaxCPUs-1).All() {
		owner, ok := owners[c]
		pod, container := PodID(owner[0]), owner[1]
		want, owned := ref.owner[c]
		if ok != owned || pod != want || (ok && w.machine.Online().Contains(c)) != b.Exclusive().Contains(c) {
			t.Fatalf("CPU %d belongs to %q (%v), want %q (%v)", c, pod, ok, want, owned)
		}
		if ok && !containerOf(b.Claims(), pod, container).CPUs.Contains(c) {
			t.Fatalf("CPU %d belongs to container %q of %q, which does not claim it", c, container, pod)
		}
	}
	claimed := map[cpuset.CPU]PodID{}
	for _, claim := range b.Claims() {
		if ref.lost[claim.ID] {
			continue
		}
		for _, one := range claim.Containers {
			for c := range one.CPUs.All() {
				if other, taken := claimed[c]; taken && other != claim.ID {
					t.Fatalf("CPU %d belongs to both %q and %q", c, other, claim.ID)
				}
				claimed[c] = claim.ID
			}
		}
	}
}

func containerOf(claims []Claim, pod PodID, name string) ContainerClaim {
	for _, c := range claims {
		for _, one := range c.Containers {
			if c.ID == pod && one.Name == name {
				return one
			}
		}
	}
	return ContainerClaim{}
}

// checkOverflow compares the overflow of the books with the reference.
func checkOverflow(t *rapid.T, b *Books, want debts) {
	var got debts
	for _, o := range b.Overflow() {
		over := o.Need - o.Have
		if over <= 0 || o.String() == "" {
			t.Fatalf("%v is not an overflow", o)
		}
		switch o.Rule {
		case RuleRequests:
			got.requests = over
		case RuleConfined:
			got.unserved += over
		case RuleLeastShare:
			got.minShared = int(over / 1000)
		}
	}
	if got.requests != want.requests || got.unserved != want.unserved || got.minShared != want.minShared {
		t.Fatalf("overflow %v, want debts %+v", b.Overflow(), want)
	}
}

// colliding returns claims of pods with some containers that all have the same CPUs.
func colliding(pods, containers int) []Claim {
	claims := make([]Claim, pods)
	for i := range claims {
		claims[i] = Claim{ID: PodID(fmt.Sprintf("%06d", i)), Rank: int64(pods - i)}
		for k := range containers {
			claims[i].Containers = append(claims[i].Containers, ContainerClaim{Name: fmt.Sprint(k), Policy: placement.Static, Limit: 8, CPUs: cpuset.Range(0, 7)})
		}
	}
	return claims
}

// Who publishes allocations can let all of them collide. That takes time in proportion to their number.
func TestManyCollisions(t *testing.T) {
	need.This(t, "the speed of this machine")
	index := placement.NewIndex(topology.Shape{CoresPerLLC: 16}.MustBuild())
	busy.Linear(t, 400, func(n int) func() { return func() { New(index, Config{}, colliding(n, 1)...) } })
	busy.Linear(t, 400, func(n int) func() { return func() { New(index, Config{}, colliding(1, n)...) } })
}
