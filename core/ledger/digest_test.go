package ledger

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/cpuset"
)

// TestDecisionsRememberNothing: books that change between decisions answer every question as new
// books do.
func TestDecisionsRememberNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, 8)
		b := w.books()
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			id := PodID(fmt.Sprintf("pod%d", rapid.IntRange(0, 5).Draw(t, "pod")))
			b.Add(drawClaim(t, w, id))
			for range 3 {
				checkSameDecision(t, New(w.index, w.config, b.Claims()...), b, drawAsk(t))
			}
		}
	})
}

// TestDecidesAs: books with the same claims of other pods, in another order, decide alike, and
// books that decide alike answer every question alike.
func TestDecidesAs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, 8)
		b := w.books()
		claims := b.Claims()
		for i := range claims {
			claims[i].ID = "other-" + claims[i].ID
		}
		other := New(w.index, w.config)
		for _, claim := range rapid.Permutation(claims).Draw(t, "order") {
			other.Add(claim)
		}
		if !b.DecidesAs(other) {
			t.Fatal("the same claims of other pods change the answers")
		}
		other.Add(drawClaim(t, w, "one-more"))
		if b.DecidesAs(other) {
			checkSameDecision(t, b, other, drawAsk(t))
		}
	})
}

func checkSameDecision(t *rapid.T, as, b *Books, ask Ask) {
	want, wantErr := as.Decide(ask)
	got, gotErr := b.Decide(ask)
	if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
		t.Fatalf("error %v, want %v", gotErr, wantErr)
	}
	quality, rateErr := b.Rate(ask)
	if fmt.Sprint(rateErr) != fmt.Sprint(wantErr) || quality != want.Quality {
		t.Fatalf("rated %+v, %v, but decided %+v, %v", quality, rateErr, want.Quality, wantErr)
	}
	if d := cmp.Diff(want, got, cmpopts.EquateComparable(cpuset.Set{})); d != "" {
		t.Fatalf("decision (-new books +these):\n%s", d)
	}
}
