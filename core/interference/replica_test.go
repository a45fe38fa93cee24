package interference

import (
	"testing"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/test/must"
)

// scripted misses the given deadlines and meets all later ones.
type scripted struct {
	missed []bool
	n      int
}

func (s *scripted) sums() []sums { return nil }
func (s *scripted) reset()       {}

func (s *scripted) step() (outcome, error) {
	s.n++
	return outcome{missed: s.n <= len(s.missed) && s.missed[s.n-1]}, nil
}

// TestWCET computes the WCET of each period separately and compares with a replica, also if the
// last run of misses extends beyond the counted periods.
func TestWCET(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		missed := rapid.SliceOfN(rapid.Bool(), 1, 60).Draw(t, "missed")
		periods := rapid.IntRange(1, len(missed)).Draw(t, "periods")
		r := &replica{engine: &scripted{missed: missed}, plan: &plan{}}
		must.Do(t, r.steps(t.Context(), int64(periods), func(int64) {}))
		got := must.Get(r.finish(t.Context()))(t)
		want, misses := map[int]int64{}, int64(0)
		sum := 0
		for i, m := range missed[:periods] {
			if !m {
				continue
			}
			wcet := 1
			for j := i; j < len(missed) && missed[j]; j++ {
				wcet++
			}
			want[wcet]++
			misses++
			sum += wcet
		}
		if got.misses != misses || got.wcet != float64(sum) || got.periods != int64(periods) {
			t.Fatalf("%d misses, sum %v of %d periods; want %d, %d of %d", got.misses, got.wcet, got.periods, misses, sum, periods)
		}
		for w := range 70 {
			n := int64(0)
			if w < len(got.histogram) {
				n = got.histogram[w]
			}
			if n != want[w] {
				t.Fatalf("%d periods with a WCET of %d, want %d", n, w, want[w])
			}
		}
	})
}
