package chart

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// described is a chart in testdata.
type described struct {
	Title, Subtitle string
	X, Y            struct {
		Label, Unit           string
		Logarithmic, Inverted bool
		Min, Max              float64
		Shown, Marks          []float64
	}
	Height int
	Shades []Shade
	Series []struct {
		Name                 string
		Colour, Dash, Marker int
		Error                int
		Points               [][]*float64 // x, y, lower, upper; null is not known
		Uncertain            []int
	}
	References []Reference
}

func (d *described) chart() *Chart {
	c := &Chart{Title: d.Title, Subtitle: d.Subtitle, Description: "Test of " + d.Title, References: d.References, Shades: d.Shades, Height: d.Height}
	for i, axis := range []*Axis{&c.X, &c.Y} {
		from := d.X
		if i == 1 {
			from = d.Y
		}
		*axis = Axis{Label: from.Label, Unit: from.Unit, Inverted: from.Inverted, Min: from.Min, Max: from.Max, Shown: from.Shown, Marks: from.Marks}
		if from.Logarithmic {
			axis.Scale = Logarithmic
		}
	}
	for _, s := range d.Series {
		series := Series{Name: s.Name, Error: Error(s.Error), Style: Style{Colour(s.Colour), Dash(s.Dash), Marker(s.Marker)}}
		for _, p := range s.Points {
			values := [4]float64{math.NaN(), math.NaN(), math.NaN(), math.NaN()}
			for i, v := range p {
				if v != nil {
					values[i] = *v
				}
			}
			series.Points = append(series.Points, Point{X: values[0], Y: values[1], Lower: values[2], Upper: values[3]})
		}
		for _, i := range s.Uncertain {
			series.Points[i].Uncertain = true
		}
		c.Series = append(c.Series, series)
	}
	return c
}

func read(t *testing.T, text []byte) *Chart {
	t.Helper()
	var d described
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	must.Do(t, decoder.Decode(&d))
	return d.chart()
}

// TestCharts compares drawings and errors. After an update, look at the files.
func TestCharts(t *testing.T) {
	golden.Archives(t, "testdata/*.txtar", "chart.svg", func(t *testing.T, archive *txtar.Archive) string {
		c := read(t, archive.Files[0].Data)
		var svg, again, image bytes.Buffer
		if err := c.SVG(&svg); err != nil {
			if c.PNG(&image) == nil || image.Len() > 0 {
				t.Error("it can be drawn as PNG")
			}
			return err.Error() + "\n"
		}
		wellFormed(t, svg.String())
		if c.SVG(&again) != nil || again.String() != svg.String() {
			t.Error("the second drawing differs from the first")
		}
		must.Do(t, c.PNG(&image))
		size, err := png.DecodeConfig(&image)
		if err != nil || size.Width != Width*PixelsPerUnit || size.Height != c.height()*PixelsPerUnit {
			t.Errorf("PNG: %dx%d, %v", size.Width, size.Height, err)
		}
		return svg.String()
	})
}

// TestHTML: an element of a page has no prologue, no size and no colour of its own.
func TestHTML(t *testing.T) {
	files, err := filepath.Glob("testdata/band.txtar")
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	archive := must.Get(txtar.ParseFile(files[0]))(t)
	c := read(t, archive.Files[0].Data)
	c.Title = "<b> & \x01"
	page := must.Get(c.HTML())(t)
	wellFormed(t, page)
	if !strings.HasPrefix(page, "<svg ") || !strings.Contains(page, "<title>&lt;b&gt; &amp; ?</title>") {
		t.Errorf("begins %.200q", page)
	}
	if strings.Contains(page, hex(ground().colour)) && !strings.Contains(page, "var(--chart-ground") {
		t.Error("has a background")
	}
	for _, p := range paints() {
		colour := hex(p.colour)
		if all, variable := strings.Count(page, colour), strings.Count(page, fmt.Sprintf("var(%s,%s)", p.variable, colour)); all != variable {
			t.Errorf("%s: %d uses, %d of them by its variable", p.variable, all, variable)
		}
	}
	if !strings.Contains(page, "var(--chart-ink,") || !strings.Contains(page, "var(--chart-blue,") {
		t.Error("colours are missing")
	}
}

func wellFormed(t *testing.T, text string) {
	t.Helper()
	if err := malformed(text); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// malformed returns an error if a text is not XML.
func malformed(text string) error {
	for decoder := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("not well-formed: %w", err)
		}
	}
}

// failing is a full disk.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestWriteFails(t *testing.T) {
	c := &Chart{Series: []Series{{Points: []Point{{X: 1, Y: 1}}}}}
	if c.SVG(failing{}) == nil || c.PNG(failing{}) == nil {
		t.Error("a failed write was not noticed")
	}
}

// TestCSS: the style sheet sets every colour for the light theme, as in SVG files, and for the dark
// theme.
func TestCSS(t *testing.T) {
	css := string(CSS("p {}"))
	if !strings.HasSuffix(css, "p {}") {
		t.Error("the page's rules are not at the end")
	}
	for _, p := range paints() {
		if n := strings.Count(css, p.variable+":"); n != 2 {
			t.Errorf("%s is set %d times", p.variable, n)
		}
		if light := p.variable + ": " + strings.ToLower(hex(p.colour)); !strings.Contains(css, light) {
			t.Errorf("no %q", light)
		}
	}
}
