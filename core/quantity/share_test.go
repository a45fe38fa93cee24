package quantity

import (
	"encoding/json"
	"math"
	"testing"
)

var unlimited = Share(math.Inf(1))

// TestShares: a share is "5%" or "0.05", and nothing else. Where the name says "percent", it is "5%"
// or "5". So no text has two meanings.
func TestShares(t *testing.T) {
	for _, c := range []struct{ text, share, percent string }{
		{"5%", "5%", "5%"},
		{"0.05", "5%", "has no unit: write 0.05% or 5%"},
		{"5", "has no unit: write 5% or 500%", "5%"},
		{"1", "has no unit: write 1% or 100%", "1%"},
		{"100", "has no unit: write 100% or 10000%", "100%"},
		{"1.05", "has no unit: write 1.05% or 105%", "1.05%"},
		{"0.999", "99.9%", "has no unit: write 0.999% or 99.9%"},
		{"0.5%", "0.5%", "0.5%"},
		{"7%", "7%", "7%"},
		{"29%", "29%", "29%"},
		{"200%", "200%", "200%"},
		{".5", "50%", "has no unit: write .5% or 50%"},
		{"1e-3", "0.1%", "has no unit: write 1e-3% or 0.1%"},
		{"0", "0%", "0%"},
		{"0%", "0%", "0%"},
		{"-0", "0%", "0%"},
	} {
		share, err := ParseShare(c.text, unlimited)
		if got := textOr(share, err); got != c.share {
			t.Errorf("share %q: %s, want %s", c.text, got, c.share)
		}
		percent, err := ParsePercent(c.text)
		if got := textOr(Share(percent/100), err); got != c.percent {
			t.Errorf("percent %q: %s, want %s", c.text, got, c.percent)
		}
	}
	for _, text := range []string{"", "%", "x", "-5%", "-0.05", "NaN", "NaN%", "inf", "-inf%", "1e999", "5%%", "5 %", "5 apples", "0,5"} {
		share, err := ParseShare(text, unlimited)
		if got := textOr(share, err); got != "must be a share such as 5% or 0.05" {
			t.Errorf("share %q: %s", text, got)
		}
		percent, err := ParsePercent(text)
		if got := textOr(Share(percent), err); got != "must be a percentage such as 5%" {
			t.Errorf("percent %q: %s", text, got)
		}
	}
}

// TestLargestShare: no message proposes what is rejected.
func TestLargestShare(t *testing.T) {
	for text, want := range map[string]string{
		"100%": "100%", "5%": "5%",
		"5": "has no unit: write 5%", "1": "has no unit: write 1% or 100%", "100": "has no unit: write 100%",
		"101": "must be at most 100%", "100.5%": "must be at most 100%",
	} {
		share, err := ParseShare(text, 1)
		if got := textOr(share, err); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func textOr(s Share, err error) string {
	if err != nil {
		return err.Error()
	}
	return s.Text()
}

// FuzzShare: what is accepted parses as the same value after it is printed, as text and in JSON.
func FuzzShare(f *testing.F) {
	for _, text := range []string{"5%", "0.05", "5", "29%", "1e300%", "1e-300", "0x1p-3", "-0%", "1_0"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseShare(text, unlimited)
		if err != nil {
			return
		}
		if again, err := ParseShare(s.Text(), unlimited); err != nil || !(s >= 0) || again.Text() != s.Text() {
			t.Errorf("%q is printed as %s, which is %v, %v", text, s.Text(), again, err)
		}
		var number, quoted Share
		data, err := json.Marshal(s)
		if err != nil || json.Unmarshal(data, &number) != nil || number != s {
			t.Errorf("%q is %s in JSON, which is %v (%v)", text, data, number, err)
		}
		if data, err = json.Marshal(text); err != nil || json.Unmarshal(data, &quoted) != nil || quoted != s {
			t.Errorf("%q in JSON is %v (%v)", text, quoted, err)
		}
	})
}

// TestShareJSON: what is no share gets a message about shares.
func TestShareJSON(t *testing.T) {
	for _, data := range []string{`"half"`, `"5"`, `true`, `null`, `{}`, `[1]`, `""`} {
		var s Share
		if err := json.Unmarshal([]byte(data), &s); err == nil && data != "null" {
			t.Errorf("%s was read as %v", data, s)
		}
	}
}
