package chart

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/test/golden"
)

// TestMarks plays testdata/marks: "linear LOW HIGH [LEAST MOST]" and "log LOW HIGH".
func TestMarks(t *testing.T) {
	golden.Scenarios(t, "testdata/marks/*.txt", func(t *testing.T, text string) string {
		out := golden.Blocks(t, text, func(words []string) (string, error) {
			var numbers [4]float64
			for i, word := range words[1:] {
				if _, err := fmt.Sscan(word, &numbers[i]); err != nil {
					return "", err
				}
			}
			a := Axis{Min: numbers[2], Max: numbers[3]}
			if words[0] == "log" {
				a.Scale = Logarithmic
			}
			e := a.extentOf(numbers[:2])
			var labels []string
			for _, tick := range e.ticks {
				if tick.Label != "" {
					labels = append(labels, tick.Label)
				}
			}
			return fmt.Sprintf("%.6g to %.6g: %s (%d marks)\n", e.min, e.max, strings.Join(labels, " "), len(e.ticks)), nil
		})
		return out
	})
}

// TestMarksFit: for any values, the axis contains them and has a readable number of marks, in order
// and inside.
func TestMarksFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Axis{Scale: Scale(rapid.IntRange(0, 1).Draw(t, "scale"))}
		value := rapid.Custom(func(t *rapid.T) float64 {
			magnitude := math.Pow(10, rapid.Float64Range(-8, 8).Draw(t, "magnitude"))
			if a.Scale == Linear && rapid.Bool().Draw(t, "negative") {
				return -magnitude
			}
			return magnitude
		})
		values := rapid.SliceOfN(value, 1, 5).Draw(t, "values")
		e := a.extentOf(values)
		for _, v := range values {
			if v < e.min || v > e.max {
				t.Fatalf("%g is outside %g to %g", v, e.min, e.max)
			}
		}
		labels := map[string]bool{}
		for i, tick := range e.ticks {
			if i > 0 && tick.Value <= e.ticks[i-1].Value {
				t.Fatalf("marks are not in order: %v", e.ticks)
			}
			if tick.Label != "" {
				if labels[tick.Label] {
					t.Fatalf("two marks %q in %v", tick.Label, e.ticks)
				}
				labels[tick.Label] = true
			}
		}
		if len(labels) < 2 || len(labels) > 11 {
			t.Fatalf("%d labels for %v: %v", len(labels), values, e.ticks)
		}
	})
}

func TestComplement(t *testing.T) {
	for share, want := range map[float64]string{1: "0%", .5: "50%", .1: "90%", .01: "99%", .001: "99.9%", .0001: "99.99%"} {
		if got := Complement(share); got != want {
			t.Errorf("%g: %q, want %q", share, got, want)
		}
	}
}
