package chart

import (
	"math"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"pinfold.dev/pinfold/report"
)

const (
	margin    = 14 // around everything
	axisLabel = 22 // room for the label of an axis
)

// draw draws the chart. It has been checked.
func (c *Chart) draw(canvas draw.Canvas) {
	canvas = draw.Crop(canvas, margin, -margin, margin-4, -margin)
	canvas.Max.Y -= c.drawTitle(canvas)

	x, y := c.X.extentOf(c.along(true)), c.Y.extentOf(c.along(false))
	p := plot.New()
	p.BackgroundColor = nil
	c.X.dress(&p.X, x)
	c.Y.dress(&p.Y, y)
	legend, marks := newLegend(c.Series), newMarks(c.References, p)
	p.Add(gridLines(), marks)
	for _, s := range c.Series {
		p.Add(&curve{series: s, x: x, y: y})
	}

	area := draw.Crop(canvas, axisLabel, -legend.width()-marks.width(), axisLabel, 0)
	area.Max.Y -= marks.height(p.DataCanvas(area))
	p.Draw(area)
	inside := p.DataCanvas(area)
	marks.label(inside)
	c.label(canvas, inside)
	legend.draw(draw.Canvas{Canvas: canvas.Canvas, Rectangle: vg.Rectangle{
		Min: vg.Point{X: inside.Max.X + marks.width(), Y: inside.Min.Y}, Max: vg.Point{X: canvas.Max.X, Y: inside.Max.Y},
	}})
}

// label names the axes.
func (c *Chart) label(canvas, inside draw.Canvas) {
	style := writing(face(12.5, false), ink())
	style.XAlign, style.YAlign = text.XCenter, text.YBottom
	canvas.FillText(style, vg.Point{X: inside.Center().X, Y: canvas.Min.Y + 2}, fit(style, c.X.text(), Width-2*margin))
	style.Rotation, style.YAlign = math.Pi/2, text.YTop
	canvas.FillText(style, vg.Point{X: canvas.Min.X, Y: inside.Center().Y}, fit(style, c.Y.text(), canvas.Max.Y-canvas.Min.Y))
}

// drawTitle returns the height that it took.
func (c *Chart) drawTitle(canvas draw.Canvas) vg.Length {
	y := canvas.Max.Y
	for _, l := range []struct {
		text  string
		style text.Style
	}{
		{c.Title, writing(face(16, true), ink())},
		{c.Subtitle, writing(face(12, false), muted())},
	} {
		if l.text == "" {
			continue
		}
		l.style.YAlign = text.YTop
		canvas.FillText(l.style, vg.Point{X: canvas.Min.X, Y: y}, fit(l.style, l.text, canvas.Max.X-canvas.Min.X))
		y -= l.style.Font.Size * 1.4
	}
	if y < canvas.Max.Y {
		y -= 6
	}
	return canvas.Max.Y - y
}

// along are all values in one direction that the axis must show.
func (c *Chart) along(x bool) []float64 {
	var all []float64
	for _, s := range c.Series {
		for _, p := range s.Points {
			switch {
			case math.IsNaN(p.Y):
			case x:
				all = append(all, p.X)
			default:
				all = append(all, p.Y)
				if s.Error != NoError {
					all = append(all, c.Y.drawable(p.Lower, p.Y), c.Y.drawable(p.Upper, p.Y))
				}
			}
		}
	}
	for _, r := range c.References {
		if r.Vertical == x {
			all = append(all, r.Value)
		}
	}
	return all
}

// drawable is a bound, or the value itself where the axis has no place for the bound.
func (a *Axis) drawable(bound, value float64) float64 {
	if a.shows(bound) != nil {
		return value
	}
	return bound
}

// gridLines are at the labelled marks only.
func gridLines() *plotter.Grid {
	g := plotter.NewGrid()
	g.Vertical = draw.LineStyle{Color: grid().colour, Width: 1}
	g.Horizontal = g.Vertical
	return g
}

// face is the typeface in a size.
func face(size vg.Length, bold bool) font.Font {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	if bold {
		f.Weight = xfont.WeightBold
	}
	return f
}

func writing(f font.Font, p paint) text.Style {
	return text.Style{Color: p.colour, Font: f, Handler: plot.DefaultTextHandler}
}

// fit shortens a text to a width.
func fit(style text.Style, s string, width vg.Length) string {
	runes := []rune(report.Printable(s))
	short := string(runes)
	for n := len(runes) - 1; n >= 0 && style.Width(short) > width; n-- {
		short = string(runes[:n]) + "…"
	}
	return short
}
