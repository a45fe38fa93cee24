package advice

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/demand"
)

// TestProposedLength follows what messages propose: the share is enough for this recording and not
// far more, and the length is enough for the wanted share.
func TestProposedLength(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for n := 1; n < 20_000; n++ {
		share, ok := smallestShare(n)
		if ok != (n >= demand.MinSamples) {
			t.Fatalf("%d periods: %v, %v", n, share, ok)
		}
		if !ok {
			continue
		}
		if n < 1000 || n%100 == 0 {
			independent := make([]float64, n)
			for i := range independent {
				independent[i] = r.ExpFloat64()
			}
			if _, enough := demand.BlockLength(independent); !enough {
				t.Fatalf("%d independent periods: %v is proposed, and then refused", n, share)
			}
		}
		if float64(share) >= 2*minThrottled/float64(n) {
			t.Fatalf("%d periods: %v is twice what is needed", n, share)
		}
	}
	for _, share := range []float64{.001, .01, .015, .02, .03, .07, .5} {
		for _, period := range []time.Duration{time.Millisecond, 7 * time.Millisecond, 100 * time.Millisecond, time.Second} {
			if length, ok := RecordFor(period, share); !ok || !suffices(int(math.Ceil(float64(length/period)*(1-lost))), share) {
				t.Errorf("for %v of periods of %v, %v is proposed", share, period, length)
			}
		}
	}
}

func TestReach(t *testing.T) {
	for _, test := range []struct {
		periods int
		want    string
	}{
		{600, "enough for advice about 2% throttled periods; for 1% record 1m40s"},
		{989, "enough for advice about 2% throttled periods; for 1% record 1m40s"},
		{994, "enough for advice about 1% throttled periods"}, // of 1m40s
		{1000, "enough for advice about 1% throttled periods"},
		{6000, "enough for advice about 0.2% throttled periods"},
		{399, "too short for advice; for 1% record 1m40s"},
		{0, "too short for advice; for 1% record 1m40s"},
	} {
		if got := Reach(test.periods, 100*time.Millisecond, .01); got != test.want {
			t.Errorf("%d periods: %q, want %q", test.periods, got, test.want)
		}
	}
}
