package frame

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/report"
	"pinfold.dev/pinfold/test/must"
)

// TestBursts reads lists of bursts and writes them as JSON.
func TestBursts(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"0", `[0]`},
		{"100%,200%,inf", `[1,2,"inf"]`},
		{" 50% , INF", `[0.5,"inf"]`},
		{"1e-1%,50%", `[0.001,0.5]`}, {"7%,29%", `[0.07,0.29]`},
		{"-0,-0%", `[0,0]`},
		{"0.5,.25", `[0.5,0.25]`},
		{"", ""}, {"1", ""}, {"100", ""}, {"100%,2", ""}, {"1e300", ""}, {"100%,", ""}, {"-1", ""}, {"-0.1%", ""}, {"NaN", ""}, {"NaN%", ""}, {"two", ""}, {"inf%", ""}, {"-inf", ""}, {"1;2", ""}, {"%", ""},
	} {
		v := NewList("B", "0,100%", ParseBurst)
		err := v.Set(c.text)
		if c.want == "" {
			if err == nil {
				t.Errorf("%q was read as %v", c.text, v.Each)
			}
			if diff := cmp.Diff([]report.Burst{0, 1}, v.Each); diff != "" {
				t.Errorf("after %q the defaults are gone:\n%s", c.text, diff)
			}
			continue
		}
		got, marshalErr := json.Marshal(v.Each)
		if err != nil || marshalErr != nil || string(got) != c.want {
			t.Errorf("%q: %s, %v, %v; want %s", c.text, got, err, marshalErr, c.want)
		}
	}
}

// TestListGrows repeats a flag.
func TestListGrows(t *testing.T) {
	v := NewList("SHARE", "0.1", ParsePart)
	for _, text := range []string{"0.5", "70%,0.9"} {
		must.Do(t, v.Set(text))
	}
	if diff := cmp.Diff([]quantity.Share{0.5, 0.7, 0.9}, v.Each); diff != "" || v.String() != "0.5,70%,0.9" {
		t.Errorf("%q is\n%s", v.String(), diff)
	}
}

// FuzzBurst parses any text. Accepted values are at least 0, and parse as the same value after they
// are printed.
func FuzzBurst(f *testing.F) {
	for _, text := range []string{"0", "1.5%", "200%", "inf", "1e300%", "1e300", "-0", "0x1p-3", "NaN", "1_0"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := ParseBurst(text)
		if err != nil {
			return
		}
		if !(b >= 0) {
			t.Fatalf("%q is read as %v", text, float64(b))
		}
		if again, err := ParseBurst(b.String()); err != nil || again != b {
			t.Fatalf("%q is printed as %q, which is read as %v, %v", text, b.String(), again, err)
		}
		if printed, err := json.Marshal(b); err != nil || math.IsInf(float64(b), 1) != (string(printed) == `"inf"`) {
			t.Fatalf("%q as JSON: %s, %v", text, printed, err)
		}
	})
}
