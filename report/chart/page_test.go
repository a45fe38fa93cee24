package chart

import (
	"math"
	"strings"
	"testing"

	"pinfold.dev/pinfold/test/must"
)

// TestFigure: the figure names the lines that have points, and the drawing does not.
func TestFigure(t *testing.T) {
	c := &Chart{Series: []Series{
		{Name: "<first>", Points: []Point{{X: 1, Y: 1}, {X: 2, Y: 2}}},
		{Name: "nothing"},
		{Name: "second", Points: []Point{{X: 1, Y: 2}}, Style: Style{Colour: Vermillion, Dash: Dashed}},
	}}
	f, ok, err := c.Figure("A caption.")
	if err != nil || !ok || f.Caption != "A caption." || len(f.Keys) != 2 || f.Keys[0].Name != "<first>" || f.Keys[1].Name != "second" {
		t.Fatalf("%+v, %v, %v", f.Keys, ok, err)
	}
	if strings.Contains(string(f.Drawing), "first") || c.Series[0].Name == "" {
		t.Error("the names are in the drawing, or removed from the chart")
	}
	for i, want := range []string{"var(--chart-blue,#0072B2);stroke-width:2;stroke-dasharray:none", "var(--chart-vermillion,#D55E00);stroke-width:2;stroke-dasharray:7 4"} {
		if !strings.Contains(string(f.Keys[i].Sample), want) {
			t.Errorf("sample %d is %s, want %s", i, f.Keys[i].Sample, want)
		}
		wellFormed(t, string(f.Keys[i].Sample))
	}
	var b strings.Builder
	must.Do(t, WritePage(&b, `{{template "figure" .}}`, f))
	wellFormed(t, b.String())
	if !strings.Contains(b.String(), "&lt;first&gt;") {
		t.Errorf("the name is not escaped: %s", b.String())
	}
}

// TestNoFigure: an empty chart is no figure, and one that cannot be drawn is an error.
func TestNoFigure(t *testing.T) {
	if _, ok, err := (&Chart{}).Figure(""); ok || err != nil {
		t.Errorf("empty: %v, %v", ok, err)
	}
	if _, ok, err := (&Chart{Series: []Series{{Points: []Point{{X: math.NaN()}}}}}).Figure(""); ok || err == nil {
		t.Errorf("bad: %v, %v", ok, err)
	}
	for _, bad := range []string{"{{", "begin {{.Absent}}"} {
		var b strings.Builder
		if err := WritePage(&b, bad, 1); err == nil || b.Len() > 0 {
			t.Errorf("%q: error %v, wrote %q", bad, err, b.String())
		}
	}
}

// TestBars: parts follow each other, and what is outside of the cell is clipped.
func TestBars(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, test := range []struct {
		bar  Bar
		want []string // paths
	}{
		{Bar{Parts: []Part{{1, Blue}, {2, Green}}, Full: 4}, []string{"M0,2H250V18H0Z", "M250,2H750V18H250Z"}},
		{Bar{Parts: []Part{{3, Blue}}, Low: 2, High: 8, Full: 4}, []string{"M0,2H750V18H0Z", "M500,10H1000M500,5V15M1000,5V15"}},
		{Bar{Parts: []Part{{5, Blue}, {1, Green}}, Full: 4}, []string{"M0,2H1000V18H0Z"}},
		{Bar{Parts: []Part{{-1, Blue}, {nan, Blue}, {inf, Blue}}, Low: nan, High: inf}, nil},
		{Bar{Parts: []Part{{1, Blue}}, Low: -inf, High: inf, Full: 1}, []string{"M0,2H1000V18H0Z", "M0,10H1000M0,5V15M1000,5V15"}},
	} {
		drawn := string(test.bar.HTML())
		wellFormed(t, drawn)
		if n := strings.Count(drawn, "<path"); n != len(test.want) {
			t.Errorf("%+v: %d paths, want %d: %s", test.bar, n, len(test.want), drawn)
		}
		for _, path := range test.want {
			if !strings.Contains(drawn, `d="`+path+`"`) {
				t.Errorf("%+v: no %s in %s", test.bar, path, drawn)
			}
		}
	}
	for _, k := range []Key{Part{1, Blue}.Key("a"), Shade{Colour: Blue}.Key("a")} {
		wellFormed(t, string(k.Sample))
		if !strings.Contains(string(k.Sample), "fill:var(--chart-blue,#0072B2)") {
			t.Errorf("the sample is %s", k.Sample)
		}
	}
}
