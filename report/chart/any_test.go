package chart

import (
	"io"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestAnyChart: any chart is either rejected, by SVG and PNG alike, or drawn as well-formed XML
// with finite numbers.
func TestAnyChart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyChart(t)
		text, err := c.HTML()
		if failed := c.PNG(io.Discard); (failed == nil) != (err == nil) {
			t.Fatalf("HTML: %v, PNG: %v", err, failed)
		}
		if err != nil {
			return
		}
		if problem := malformed(text); problem != nil {
			t.Fatalf("%v\n%s", problem, text)
		}
		drawing := text[strings.Index(text, "</desc>"):]
		for _, bad := range []string{"NaN", "Inf"} {
			if strings.Contains(drawing, bad) {
				t.Fatalf("the drawing has %s:\n%s", bad, text)
			}
		}
	})
}

func anyChart(t *rapid.T) *Chart {
	text := rapid.StringMatching(`[ -~\x00-\x1fäλ漢]{0,30}`)
	value := rapid.Custom(func(t *rapid.T) float64 {
		if rapid.IntRange(0, 19).Draw(t, "odd") > 0 {
			return rapid.Float64Range(0.001, 100).Draw(t, "value")
		}
		return rapid.SampledFrom([]float64{0, -1, 1e-300, 1e300, 5e-324, -math.MaxFloat64, math.MaxFloat64,
			math.NaN(), math.Inf(1), math.Inf(-1), 1e15, 1e15 + 1}).Draw(t, "odd value")
	})
	axis := func(name string) Axis {
		a := Axis{Label: text.Draw(t, name), Scale: Scale(rapid.IntRange(0, 1).Draw(t, name+" scale")), Inverted: rapid.Bool().Draw(t, name+" inverted")}
		if rapid.IntRange(0, 9).Draw(t, name+" bounded") == 0 {
			a.Min, a.Max = value.Draw(t, name+" least"), value.Draw(t, name+" most")
		}
		a.Shown = rapid.SliceOfN(value, 0, 1).Draw(t, name+" shown")
		a.Marks = rapid.SliceOfN(value, 0, 3).Draw(t, name+" marks")
		return a
	}
	c := &Chart{Title: text.Draw(t, "title"), Description: text.Draw(t, "description"), X: axis("x"), Y: axis("y")}
	for range rapid.IntRange(0, 4).Draw(t, "series") {
		s := Series{Name: text.Draw(t, "name"), Error: Error(rapid.IntRange(0, 2).Draw(t, "error")), Style: Style{
			Colour(rapid.IntRange(0, int(colours)-1).Draw(t, "colour")), Dash(rapid.IntRange(0, int(dashes)-1).Draw(t, "dash")),
			Marker(rapid.IntRange(0, int(markers)-1).Draw(t, "marker"))}}
		x := 0.5
		for range rapid.IntRange(0, 4).Draw(t, "points") {
			x += rapid.Float64Range(0, 10).Draw(t, "step")
			p := Point{X: x, Y: value.Draw(t, "y"), Uncertain: rapid.Bool().Draw(t, "uncertain")}
			p.Lower, p.Upper = min(p.Y, value.Draw(t, "lower")), max(p.Y, value.Draw(t, "upper"))
			s.Points = append(s.Points, p)
		}
		c.Series = append(c.Series, s)
	}
	c.Height = rapid.SampledFrom([]int{0, 0, -1, 159, 160, 300}).Draw(t, "height")
	for range rapid.IntRange(0, 2).Draw(t, "shades") {
		c.Shades = append(c.Shades, Shade{value.Draw(t, "from"), value.Draw(t, "to"), Colour(rapid.IntRange(0, int(colours)-1).Draw(t, "shade"))})
	}
	for range rapid.IntRange(0, 3).Draw(t, "references") {
		c.References = append(c.References, Reference{Value: value.Draw(t, "reference"), Vertical: rapid.Bool().Draw(t, "vertical"), Label: text.Draw(t, "label")})
	}
	return c
}
