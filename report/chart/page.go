package chart

import (
	"bytes"
	_ "embed" // for pages
	"errors"
	"fmt"
	"html/template"
	"io"
	"strings"

	"gonum.org/v1/plot/vg"
)

var (
	//go:embed chart.css
	colourCSS string
	//go:embed page.css
	pageCSS string
	//go:embed figure.html
	figureHTML string
)

// CSS returns a style sheet for pages with charts, followed by the rules of a page. It sets the
// colours for light and dark themes, and the style of text, tables and figures. A page may use
// --chart-ink, --chart-muted, --chart-grid and --chart-ground for its own content.
func CSS(page string) template.CSS {
	return template.CSS(colourCSS + pageCSS + page) //nolint:gosec // embedded files
}

// WritePage writes a page: all of it, or nothing if it cannot be made. The template may use the
// template "figure", whose data is a [Figure].
func WritePage(w io.Writer, page string, data any) error {
	t, err := template.New("page").Parse(figureHTML)
	if err == nil {
		t, err = t.Parse(page)
	}
	if err != nil {
		return fmt.Errorf("the page's template: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return fmt.Errorf("make the page: %w", err)
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// Figure is a chart in a page. The names of its lines are below the drawing, where they take no
// width from it.
type Figure struct {
	Drawing template.HTML
	Keys    []Key
	Caption string
}

// Key is the name of a line.
type Key struct {
	Name   string
	Sample template.HTML // a piece of the line
}

// Figure returns the chart for a page, and false if it is empty.
func (c *Chart) Figure(caption string) (Figure, bool, error) {
	f, unnamed := Figure{Caption: caption}, *c
	unnamed.Series = nil
	for _, s := range c.Series {
		if len(s.Points) > 0 {
			f.Keys = append(f.Keys, Key{s.Name, s.Style.sample()})
			s.Name = ""
			unnamed.Series = append(unnamed.Series, s)
		}
	}
	svg, err := unnamed.HTML()
	if errors.Is(err, errEmpty) {
		return Figure{}, false, nil
	}
	f.Drawing = template.HTML(svg) //nolint:gosec // HTML escapes text
	return f, err == nil, err
}

// sample returns a piece of the line, with its marker.
func (s Style) sample() template.HTML {
	marker := [markers]string{
		Circle:   "M17,1.8a3.2,3.2 0 1 0 .01,0Z",
		Square:   "M13.8,1.8H20.2V8.2H13.8Z",
		Triangle: "M17,1L20.5,8H13.5Z",
	}[s.Marker]
	return sample(fmt.Sprintf(`<path d="M0,5H34" style="fill:none;stroke:%[1]s;stroke-width:2;stroke-dasharray:%[2]s"/><path d="%[3]s" style="fill:%[1]s"/>`,
		s.Colour.css(), dashArray(s.Dash.lengths()), marker))
}

func dashArray(lengths []vg.Length) string {
	if len(lengths) == 0 {
		return "none"
	}
	return strings.Trim(fmt.Sprint(lengths), "[]")
}

func sample(shape string) template.HTML {
	return template.HTML(`<svg width="34" height="10" viewBox="0 0 34 10" aria-hidden="true">` + shape + `</svg>`) //nolint:gosec // of numbers and colours
}

// Key returns the key of shades with a colour.
func (s Shade) Key(name string) Key {
	return Key{name, sample(fmt.Sprintf(`<path d="M0,0H34V10H0Z" style="fill:%s;fill-opacity:%.2g"/>`, s.Colour.css(), bandOpacity/255.))}
}

// css returns the colour as HTML has it.
func (c Colour) css() string {
	p := c.paint()
	return fmt.Sprintf("var(%s,%s)", p.variable, hex(p.colour))
}
