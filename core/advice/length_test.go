package advice

import (
	"testing"
	"time"
)

// TestProposedLength follows what messages propose: the share is enough for this recording and not
// far more, and the length is enough for the wanted share.
func TestProposedLength(t *testing.T) {
	for n := 100; n < 20_000; n++ {
		share, ok := smallestShare(n)
		if !ok || float64(n) < neededPeriods(float64(share)) {
			t.Fatalf("%d periods: %v (%v) is proposed, which needs %v", n, share, ok, neededPeriods(float64(share)))
		}
		if float64(share) >= 2*minThrottled/float64(n) {
			t.Fatalf("%d periods: %v is twice what is needed", n, share)
		}
	}
	for _, share := range []float64{.001, .01, .015, .02, .03, .07, .5} {
		for _, period := range []time.Duration{time.Millisecond, 7 * time.Millisecond, 100 * time.Millisecond, time.Second} {
			if length, ok := RecordFor(period, share); !ok || float64(length/period) < neededPeriods(share) {
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
		{999, "enough for advice about 2% throttled periods; for 1% record 1m40s"},
		{1000, "enough for advice about 1% throttled periods"},
		{6000, "enough for advice about 0.2% throttled periods"},
		{99, "too short for advice; for 1% record 1m40s"},
		{0, "too short for advice; for 1% record 1m40s"},
	} {
		if got := Reach(test.periods, 100*time.Millisecond, .01); got != test.want {
			t.Errorf("%d periods: %q, want %q", test.periods, got, test.want)
		}
	}
}
