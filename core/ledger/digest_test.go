package ledger

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/cpuset"
)

// TestDecisionsRememberNothing: books that change between decisions, and their
// clones, answer every question as books do that are new and asked nothing else.
func TestDecisionsRememberNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, 8)
		b := w.books()
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			before := b.Clone()
			id := PodID(fmt.Sprintf("pod%d", rapid.IntRange(0, 5).Draw(t, "pod")))
			if rapid.Bool().Draw(t, "remove") {
				b.Remove(id)
			} else {
				b.Add(drawClaim(t, w, id))
			}
			for range 3 {
				ask := drawAsk(t)
				checkSameDecision(t, w, b, ask)
				checkSameDecision(t, w, before, ask)
			}
		}
	})
}

func checkSameDecision(t *rapid.T, w *world, b *Books, ask Ask) {
	want, wantErr := New(w.index, w.config, b.Claims()...).Decide(ask)
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
