package frame

import (
	"testing"
	"time"

	"pinfold.dev/pinfold/core/ledger"
)

func TestParseAmount(t *testing.T) {
	for text, want := range map[string]ledger.MilliCPU{
		"1": 1000, "0.5": 500, "500m": 500, "1500m": 1500, "0.001": 1, "1m": 1, "64": 64000, "2.25": 2250, "100000": 100_000_000, "0100": 100_000,
		"": 0, "0": 0, "0m": 0, "m": 0, ".5": 0, "1.": 0, "1.2345": 0, "-1": 0, "+1": 0, "1e3": 0, "0x1": 0, "NaN": 0, "inf": 0, "1.5m": 0,
		"1 ": 0, "100001": 0, "99999999999999999999": 0, "1_0": 0, "٣": 0, "1.-2": 0,
	} {
		got, err := ParseAmount(text)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
}

// FuzzParseAmount: an accepted amount parses as the same value after it is printed, and its quota
// is in range.
func FuzzParseAmount(f *testing.F) {
	for _, text := range []string{"1", "0.5", "500m", "100000", "1.", "1.0000", "m"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseAmount(text)
		if err != nil {
			return
		}
		if again, err := ParseAmount(a.String()); err != nil || again != a || a <= 0 {
			t.Errorf("%q is %d, which prints as %s and reads as %d, %v", text, a, a.String(), again, err)
		}
		for _, period := range []time.Duration{time.Millisecond, 100 * time.Millisecond, time.Second} {
			if q := Quota(a, period); q < 0 || q%time.Microsecond != 0 || q > time.Duration(maxAmount/1000)*period {
				t.Errorf("%q in %v is %v", text, period, q)
			}
		}
	})
}

// TestMinLimit: the kernel accepts the limit, but not a lower one.
func TestMinLimit(t *testing.T) {
	for _, period := range []time.Duration{time.Millisecond, 3 * time.Millisecond, 7777 * time.Microsecond, 100 * time.Millisecond, time.Second} {
		least, err := ParseAmount(MinLimit(period).String())
		if err != nil || Quota(least, period) < time.Millisecond || Quota(least-1, period) >= time.Millisecond {
			t.Errorf("period %v: %s, %v", period, MinLimit(period), err)
		}
	}
}
