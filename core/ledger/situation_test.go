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

// TestEqualSituationsGiveEqualAnswers: books of different pods, or with small changes, give the
// same answers if their situations are equal.
func TestEqualSituationsGiveEqualAnswers(t *testing.T) {
	equal := 0
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, 6)
		other := drawVariant(t, w)
		a, b := w.books(), other.books()
		if a.Situation() != b.Situation() {
			return
		}
		equal++
		for range 4 {
			ask := drawAsk(t)
			want, wantErr := a.Decide(ask)
			got, gotErr := b.Decide(ask)
			if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
				t.Fatalf("error %v, want %v", gotErr, wantErr)
			}
			if d := cmp.Diff(want, got, cmpopts.EquateComparable(cpuset.Set{})); d != "" {
				t.Fatalf("decision (-one +other):\n%s", d)
			}
			if a.SharedRequests() != b.SharedRequests() || a.Shared() != b.Shared() {
				t.Fatal("the shared CPUs or requests differ")
			}
		}
	})
	if equal == 0 {
		t.Error("no two situations were equal: nothing was tested")
	}
}

// drawVariant draws a world that differs in details that do not matter, and sometimes in one that
// does.
func drawVariant(t *rapid.T, w *world) *world {
	other := *w
	other.claims = rapid.Permutation(w.claims).Draw(t, "order")
	for i := range other.claims {
		c := &other.claims[i]
		c.Containers = slices.Clone(c.Containers)
		c.ID = PodID(fmt.Sprintf("other%d", i))
		c.Rank = int64(i)
	}
	if len(other.claims) > 0 {
		change(t, w, &other.claims[rapid.IntRange(0, len(other.claims)-1).Draw(t, "pod")])
	}
	switch rapid.IntRange(0, 7).Draw(t, "config") {
	case 5:
		other.config.Reserved = drawMilli(t, "reserved")
	case 6:
		other.config.MinShared = rapid.IntRange(0, 2).Draw(t, "minShared")
	case 7:
		other.config.ReservedCPUs = drawFew(t, w)
	}
	return &other
}

// change changes a claim, sometimes in a way that leaves all sums equal.
func change(t *rapid.T, w *world, c *Claim) {
	kind := rapid.SampledFrom([]string{"nothing", "all", "limit", "request", "where"}).Draw(t, "change")
	if kind == "all" {
		*c = drawClaim(t, w, c.ID)
	}
	if len(c.Containers) == 0 {
		return
	}
	one := &c.Containers[rapid.IntRange(0, len(c.Containers)-1).Draw(t, "container")]
	switch kind {
	case "limit":
		one.Limit = rapid.IntRange(1, 3).Draw(t, "limit")
	case "where":
		if one.Policy == placement.StaticBurst {
			one.NUMANodes = drawNodes(t, w)
		} else {
			one.CPUs = drawFew(t, w)
		}
	case "request":
		moved := min(one.Request, 500)
		one.Request -= moved
		c.SharedRequest += moved
	}
}
