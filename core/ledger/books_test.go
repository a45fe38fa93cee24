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
)

// contents is everything that books consist of.
type contents struct {
	Claims             []Claim
	Conflicts          []Conflict
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
			if !ref.lost[c.ID] || len(c.Problems) == 0 || c.String() == "" {
				t.Fatalf("unexpected conflict: %v", c)
			}
			checkHolders(t, c, ref)
		}
		if len(b.Conflicts()) != len(ref.lost) {
			t.Fatalf("conflicts %v, want those of pods %v", b.Conflicts(), ref.lost)
		}
		checkOverflow(t, b, ref.debts())
		checkOffline(t, w, b, ref)
	})
}

// TestAmountsAreThoseOfBooks: if every claim is valid on the machine, Amounts equals the sums of
// the books.
func TestAmountsAreThoseOfBooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, 12)
		w.config, w.machine.Offline = Config{}, cpuset.Set{}
		for _, claim := range w.claims {
			confineTogether(claim.Containers)
		}
		w.index = placement.NewIndex(w.machine)
		for _, c := range w.books().Conflicts() {
			if slices.ContainsFunc(c.Problems, func(p Problem) bool { return p.Kind != CPUHeld }) {
				w.claims = slices.DeleteFunc(w.claims, func(claim Claim) bool { return claim.ID == c.ID })
			}
		}
		b := w.books()
		exclusive, requests := Amounts(w.claims)
		if exclusive != b.Exclusive() || requests != b.SharedRequests() {
			t.Fatalf("exclusive %s, requests %s; the books have %s, %s", exclusive, requests, b.Exclusive(), b.SharedRequests())
		}
	})
}

// confineTogether gives the static-burst containers of a pod one confinement, as decisions do.
// Books count each confinement of a pod by its own largest phase.
func confineTogether(containers []ContainerClaim) {
	first := slices.IndexFunc(containers, func(c ContainerClaim) bool { return c.Policy == placement.StaticBurst })
	for i := range containers {
		if containers[i].Policy == placement.StaticBurst {
			containers[i].NUMANodes = containers[first].NUMANodes
		}
	}
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

// checkHolders checks that the holder named in a conflict has the CPUs.
func checkHolders(t *rapid.T, c Conflict, ref *reference) {
	for _, p := range c.Problems {
		if p.Kind != CPUHeld {
			continue
		}
		for cpu := range p.CPUs.All() {
			if ref.owner[cpu] != p.Holder {
				t.Fatalf("%v: CPU %d belongs to %q", c, cpu, ref.owner[cpu])
			}
		}
	}
}

func checkOwners(t *rapid.T, w *world, b *Books, ref *reference) {
	if online := w.machine.Balanced().Union(b.Exclusive()); b.Exclusive().Intersects(b.Shared()) || b.Exclusive().Union(b.Shared()) != online {
		t.Fatalf("exclusive %s + shared %s is not online %s", b.Exclusive(), b.Shared(), online)
	}
	if b.Exclusive().Intersects(w.config.ReservedCPUs) {
		t.Fatalf("exclusive %s with reserved %s", b.Exclusive(), w.config.ReservedCPUs)
	}
	owners := map[cpuset.CPU]Portion{}
	for _, p := range b.Portions() {
		for c := range p.CPUs.All() {
			if other, taken := owners[c]; taken {
				t.Fatalf("CPU %d is in two portions: %v and %v", c, other, p)
			}
			owners[c] = p
		}
	}
	for c := range cpuset.Range(0, cpuset.MaxCPUs-1).All() {
		portion, ok := owners[c]
		pod, container := portion.Pod, portion.Container
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
